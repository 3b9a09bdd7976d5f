// What the generic engine does to a tile of products: block statistics, P, and the sums of segments.
#pragma once

#include "cuda/kernel/block_warp.cuh"
#include "cuda/kernel/head_gradient_row.cuh"
#include "cuda/launch/head_engine.h"
#include "cuda/launch/product_tiles.h"

namespace samebits::cuda {

// Block statistics of logits; `column` is a multiple of 128, and so is `columns` unless it is the end of the vocabulary.
// A warp per block; the CTA's warps take neighbouring rows of one block.
template <class Row>
__global__ void __launch_bounds__(32 * kBlockWarps)
    tile_stats(const ProductTile<typename Row::Real> tile, const __grid_constant__ StatsTask task) {
  using Real = typename Row::Real;
  const std::int64_t groups = (tile.rows + kBlockWarps - 1) / kBlockWarps;
  const std::int64_t r = blockIdx.x % groups * kBlockWarps + threadIdx.x / 32, b = blockIdx.x / groups;
  const int lane = threadIdx.x % 32;
  const std::int64_t i = tile.row + r, position = task.range.first + i;
  if (r >= tile.rows || position >= *task.range.count) return;
  const Real inf = order::infinity<Real>();
  const Real it =
      task.inverse_tau == nullptr ? Real(1) : reinterpret_cast<const Real*>(task.inverse_tau)[position];
  const std::int64_t target = task.target[position] - tile.column;  // in the tile
  Real z[4], m = -inf;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::int64_t c = b * order::kBlock + lane + 32 * k;
    z[k] = -inf;
    if (c < tile.columns) {
      const Real x = tile.data[r * tile.stride + c];
      if (c == target) reinterpret_cast<Real*>(task.target_logit)[position] = x;
      z[k] = x * it;
    }
    m = max_nan(m, z[k]);
  }
  m = warp_reduce<MaxNan<Real>>(m);
  Real s = 0, u = 0;
#pragma unroll
  for (const Real value : z) {
    const Real d = value - m < Row::kCut ? Row::kCut : value - m;
    const Real term = Row::exp(d);
    s = s + term;
    u = order::fma(term, -d, u);
  }
  s = combine_lanes(s);
  u = combine_lanes(u);
  if (lane != 0) return;
  const std::int64_t at = (tile.column / order::kBlock + b) * task.range.rows + i;
  reinterpret_cast<Real*>(task.max)[at] = m;
  reinterpret_cast<Real*>(task.sum)[at] = m == -inf ? Real(0) : s;
  if (task.entropy_sum != nullptr) reinterpret_cast<Real*>(task.entropy_sum)[at] = m == -inf ? Real(0) : u;
}

inline constexpr int kTileThreads = 256, kTileColumns = 1024;

// Where a CTA works: one row of a tile and at most kTileColumns of its columns.
struct TilePart {
  std::int64_t row, first, last;

  __device__ TilePart(std::int64_t columns) {
    const std::int64_t parts = (columns + kTileColumns - 1) / kTileColumns;
    row = blockIdx.x / parts;
    first = blockIdx.x % parts * kTileColumns;
    last = min(first + kTileColumns, columns);
  }
};

// P of logits.
template <class Row, class Stored>
__global__ void __launch_bounds__(kTileThreads)
    tile_p(const ProductTile<typename Row::Real> tile, const __grid_constant__ PTask task) {
  using Real = typename Row::Real;
  const TilePart part(tile.columns);
  const std::int64_t i = tile.row + part.row, position = task.range.first + i;
  const std::int32_t count = *task.range.count;
  if (position >= (count + 63) / 64 * std::int64_t{64}) return;
  const std::int64_t shift = tile.column - task.column;  // of the tile's columns in P
  Stored* p = static_cast<Stored*>(task.p) + i * task.p_stride + shift;
  const bool live = position < count;
  const Real it = !live || task.inverse_tau == nullptr
                      ? Real(1)
                      : reinterpret_cast<const Real*>(task.inverse_tau)[position];
  const std::int64_t target = live ? task.target[position] - tile.column : -1;
  GradientForm<Row> form;
  if (live) form = static_cast<const GradientForm<Row>*>(task.rows)[position];
  for (std::int64_t c = part.first + threadIdx.x; c < part.last; c += kTileThreads) {
    Real value = 0;
    if (live) value = p_value(form, tile.data[part.row * tile.stride + c] * it, c == target);
    p[c] = order::round_to<Stored>(value);
  }
}

// N of the rows of a range gets what one segment of the vocabulary adds; `column` counts elements of hidden.
__global__ void __launch_bounds__(kTileThreads)
    tile_counts(const ProductTile<float> tile, const __grid_constant__ HiddenTask task, std::int64_t size) {
  const TilePart part(tile.columns);
  const std::int64_t position = task.range.first + tile.row + part.row;
  if (position >= *task.range.count) return;
  const double scale = order::power_of_2(task.exponent[position]);
  std::int64_t* counts = task.counts + position * size + tile.column;
  bool finite = true;
  for (std::int64_t k = part.first + threadIdx.x; k < part.last; k += kTileThreads) {
    const float d = tile.data[part.row * tile.stride + k];
    if (order::is_finite(d))
      counts[k] += __double2ll_rn(static_cast<double>(d) * scale);
    else
      finite = false;
  }
  if (!finite) task.nan_row[position] = 1;
}

// Sums of segments, ascending: for grad_hidden in binary64 (rows of the range from *count on are left alone), and for
// grad_weight, whose rows are columns of P.
template <class Real>
__global__ void __launch_bounds__(kTileThreads)
    tile_sums(const ProductTile<Real> tile, Real* sums, std::int64_t stride, std::int64_t first_position,
              const std::int32_t* count) {
  const TilePart part(tile.columns);
  if (count != nullptr && first_position + tile.row + part.row >= *count) return;
  Real* to = sums + (tile.row + part.row) * stride + tile.column;
  const Real* from = tile.data + part.row * tile.stride;
  for (std::int64_t k = part.first + threadIdx.x; k < part.last; k += kTileThreads) to[k] = to[k] + from[k];
}

}  // namespace samebits::cuda
