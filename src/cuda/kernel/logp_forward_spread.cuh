// Forward pass of row.v1 for many rows of fp32 whose vectors of 16 bytes are whole, at the speed of memory.
//
// Logits go straight to registers, two units of each warp at a time: on an H200 plain loads reach what asynchronous copies
// into shared memory do not (96% of a pure read and 93%), though blocks spread over lanes cost more shuffles. Types of 16
// bits, bound by arithmetic, are faster in tiles.
#pragma once

#include "cuda/kernel/row_finish.cuh"
#include "cuda/kernel/row_spread.cuh"

namespace samebits::cuda {

// Warps of a CTA where rows are long, and where they are short.
inline constexpr int kSpreadWarps = 8, kSpreadWarpsShort = 4;
// Units of a warp under way.
inline constexpr int kSpreadDepth = 2;
// Warps that share a multiprocessor's registers. Code of SM90 gets by with fewest.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
inline constexpr int kSpreadResidentScaled = 32;
#else
inline constexpr int kSpreadResidentScaled = 24;
#endif
constexpr int spread_resident(bool scaled, bool entropy) {
  return entropy ? 24 : (scaled ? kSpreadResidentScaled : 32);
}

template <bool scaled, bool entropy, int warps>
__global__ void __launch_bounds__(32 * warps, spread_resident(scaled, entropy) / warps)
    logp_forward_spread(const __grid_constant__ core::LogpProblem problem, const RowSplit split,
                        const PartScratch scratch) {
  using Row = order::RowV1;
  using Unit = Spread<float>;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ FinishShared<Row> shared;
  Part<Row> part = part_of<Row>(problem, split);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t id = problem.target(part.row);
  const core::RowKind kind = problem.kind(part.row, id);
  if (kind != core::RowKind::kLive) {
    if (threadIdx.x == 0) write_other_row<Row>(problem, part.row, kind);
    return;
  }

  const int vocab = static_cast<int>(problem.vocab);
  const int units = (vocab + Unit::kUnit - 1) / Unit::kUnit, whole = vocab / Unit::kUnit;
  const float* const x = problem.logits.at<float>(part.row);
  const float* const mine = x + Unit::column_of(lane);
  const auto load = [&](Unit& to, int unit) {
    const float* const from = mine + unit * Unit::kUnit;
    if (unit < whole) {
#pragma unroll
      for (int k = 0; k < 4; ++k) to.vectors[k] = load_once(from + 32 * k);
    } else if (unit < units) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        to.miss(k);
        if (unit * Unit::kUnit + Unit::column_of(lane) + 32 * k < vocab)
          to.vectors[k] = load_once(from + 32 * k);
      }
    }
  };
  Unit held[kSpreadDepth];
#pragma unroll
  for (int i = 0; i < kSpreadDepth; ++i) load(held[i], warp + i * warps);

  const float it = scaled ? inverse_temperature<Row>(problem, part.row) : 1.0f;
  if (threadIdx.x == 0) shared.z_target = x[id] * it;
  float* const stats = reinterpret_cast<float*>(dynamic);
#pragma unroll 1
  for (int first = warp; first < units; first += kSpreadDepth * warps) {
#pragma unroll
    for (int i = 0; i < kSpreadDepth; ++i) {
      const int unit = first + i * warps;
      if (unit >= units) break;
      const float max = extremes(held[i]).max;
      const float m = scaled ? max * it : max;
      const BlockSums sums = spread_sums<float, scaled, entropy, true>(held[i], it, m, lane);
      load(held[i], unit + kSpreadDepth * warps);
      const int b = unit * Unit::kBlocks + lane / Unit::kLanes;
      if (lane % Unit::kLanes == 0 && b < part.blocks) {
        stats[b] = m;
        stats[part.blocks + b] = sums.s;
        if constexpr (entropy) stats[2 * part.blocks + b] = sums.u;
      }
    }
  }
  part.stats = BlockStats<float>::at(stats, part.blocks, entropy);
  finish_part<Row>(problem, part, scratch, shared);
}

}  // namespace samebits::cuda
