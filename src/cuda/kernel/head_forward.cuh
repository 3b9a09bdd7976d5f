// The end of a head's forward pass: block statistics into the outputs of 32 rows at a time.
#pragma once

#include "cuda/kernel/row_finish.cuh"
#include "cuda/launch/head_rows.h"

namespace samebits::cuda {

// Block statistics of a range of rows, block by block, and the logits of their targets by position.
template <class Row>
struct RangeStats {
  using Real = typename Row::Real;
  PositionRange range;
  BlockStats<Real> stats;
  const Real* target_logit;
  int blocks;

  __device__ __forceinline__ Real max_of(int b, std::int64_t i) const { return stats.m[b * range.rows + i]; }
  // Adds what block b of row i gives to S and U.
  __device__ __forceinline__ void add(int b, std::int64_t i, Real max, RowSums<Row>& sums) const {
    const Real m = max_of(b, i), s = stats.s[b * range.rows + i];
    sums.sum += order::block_to_sum<Row>(m, s, max);
    if (stats.u != nullptr)
      sums.entropy_sum += order::block_to_entropy_sum<Row>(m, s, stats.u[b * range.rows + i], max);
  }
  __device__ void write(const core::LogpProblem& problem, const HeadRows& list, std::int64_t position,
                        Real max, const RowSums<Row>& sums) const {
    const Real it =
        list.inverse_tau == nullptr ? Real(1) : static_cast<const Real*>(list.inverse_tau)[position];
    write_live_row<Row>(problem, list.row[position], max, sums, target_logit[position] * it);
  }
};

// A CTA takes 32 rows, one to a lane, and its warps share their blocks.
inline constexpr int kFinishRows = 32, kFinishWarps = 16;

// Combines what the warps of a CTA hold of each row; every warp gets the result.
template <class Op, class Value>
__device__ Value combine_warps(Value value, Value (&shared)[kFinishWarps][kFinishRows]) {
  shared[threadIdx.x / 32][threadIdx.x % 32] = value;
  __syncthreads();
  value = shared[0][threadIdx.x % 32];
  for (int w = 1; w < kFinishWarps; ++w) value = Op()(value, shared[w][threadIdx.x % 32]);
  __syncthreads();
  return value;
}

template <class Row>
__global__ void __launch_bounds__(32 * kFinishWarps)
    finish_rows(const __grid_constant__ core::LogpProblem problem, const __grid_constant__ HeadRows list,
                const RangeStats<Row> from) {
  using Real = typename Row::Real;
  using Fixed = typename Row::Fixed;
  __shared__ union {
    Real max[kFinishWarps][kFinishRows];
    Fixed sum[kFinishWarps][kFinishRows];
  } shared;
  const std::int64_t i = blockIdx.x * std::int64_t{kFinishRows} + threadIdx.x % 32;
  const std::int64_t position = from.range.first + i;
  const bool mine = i < from.range.rows && position < *list.count;
  const int warp = threadIdx.x / 32;

  Real max = -order::infinity<Real>();
  if (mine)
    for (int b = warp; b < from.blocks; b += kFinishWarps) max = max_nan(max, from.max_of(b, i));
  max = combine_warps<MaxNan<Real>>(max, shared.max);
  RowSums<Row> sums{0, 0};
  if (mine && order::classify(max) == order::RowClass::kFinite)
    for (int b = warp; b < from.blocks; b += kFinishWarps) from.add(b, i, max, sums);
  sums.sum = combine_warps<Add<Fixed>>(sums.sum, shared.sum);
  if (from.stats.u != nullptr) sums.entropy_sum = combine_warps<Add<Fixed>>(sums.entropy_sum, shared.sum);
  if (mine && warp == 0) from.write(problem, list, position, max, sums);
}

// The same where rows are few: a CTA per row.
inline constexpr int kFewRows = 512, kFewThreads = 256;

template <class Row>
__global__ void __launch_bounds__(kFewThreads)
    finish_few_rows(const __grid_constant__ core::LogpProblem problem, const __grid_constant__ HeadRows list,
                    const RangeStats<Row> from) {
  using Real = typename Row::Real;
  using Fixed = typename Row::Fixed;
  __shared__ Real maxima[kFewThreads / 32];
  __shared__ Fixed totals[kFewThreads / 32];
  const std::int64_t i = blockIdx.x, position = from.range.first + i;
  if (position >= *list.count) return;
  Real max = -order::infinity<Real>();
  for (int b = threadIdx.x; b < from.blocks; b += kFewThreads) max = max_nan(max, from.max_of(b, i));
  max = cta_reduce<MaxNan<Real>>(max, maxima);
  RowSums<Row> sums{0, 0};
  if (order::classify(max) == order::RowClass::kFinite)
    for (int b = threadIdx.x; b < from.blocks; b += kFewThreads) from.add(b, i, max, sums);
  sums.sum = cta_reduce<Add<Fixed>>(sums.sum, totals);
  if (from.stats.u != nullptr) sums.entropy_sum = cta_reduce<Add<Fixed>>(sums.entropy_sum, totals);
  if (threadIdx.x == 0) from.write(problem, list, position, max, sums);
}

}  // namespace samebits::cuda
