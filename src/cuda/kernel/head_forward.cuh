// The end of a head's forward pass: block statistics into the outputs of 32 rows at a time.
#pragma once

#include "cuda/kernel/late_row.cuh"
#include "cuda/kernel/row_finish.cuh"
#include "cuda/launch/head_rows.h"
#include "cuda/prim/kernel_order.cuh"

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
  __device__ __forceinline__ Real sum_of(int b, std::int64_t i) const { return stats.s[b * range.rows + i]; }
  // Adds what block b of row i gives to S and U; m and s are of it.
  __device__ __forceinline__ void add(int b, std::int64_t i, Real m, Real s, Real max,
                                      RowSums<Row>& sums) const {
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
    for (int b = warp; b < from.blocks; b += kFinishWarps)
      from.add(b, i, from.max_of(b, i), from.sum_of(b, i), max, sums);
  sums.sum = combine_warps<Add<Fixed>>(sums.sum, shared.sum);
  if (from.stats.u != nullptr) sums.entropy_sum = combine_warps<Add<Fixed>>(sums.entropy_sum, shared.sum);
  if (mine && warp == 0) from.write(problem, list, position, max, sums);
}

// The same where rows are few: a CTA per row, which lists itself where P of it is late.
inline constexpr int kFewRows = 512, kFewThreads = 256;

template <class Row>
__global__ void __launch_bounds__(kFewThreads, 1)
    finish_few_rows(const __grid_constant__ core::LogpProblem problem, const __grid_constant__ HeadRows list,
                    const RangeStats<Row> from, const __grid_constant__ LateListing late) {
  let_kernel_behind_start();
  using Real = typename Row::Real;
  using Fixed = typename Row::Fixed;
  __shared__ Real maxima[kFewThreads / 32];
  __shared__ Fixed totals[kFewThreads / 32];
  const std::int64_t i = blockIdx.x, position = from.range.first + i;
  if (position >= *list.count) return;
  // The first blocks are loaded once, all at a time: caches are cold.
  constexpr int kHeld = 4;
  Real m[kHeld], s[kHeld], max = -order::infinity<Real>();
  const int first = threadIdx.x, rest = first + kHeld * kFewThreads;
#pragma unroll
  for (int held = 0; held < kHeld; ++held) {
    const int b = first + held * kFewThreads;
    m[held] = b < from.blocks ? from.max_of(b, i) : max;
    s[held] = b < from.blocks ? from.sum_of(b, i) : Real(0);
  }
#pragma unroll
  for (int held = 0; held < kHeld; ++held) max = max_nan(max, m[held]);
  for (int b = rest; b < from.blocks; b += kFewThreads) max = max_nan(max, from.max_of(b, i));
  max = cta_reduce<MaxNan<Real>>(max, maxima);
  RowSums<Row> sums{0, 0};
  if (order::classify(max) == order::RowClass::kFinite) {
#pragma unroll
    for (int held = 0; held < kHeld; ++held)
      if (const int b = first + held * kFewThreads; b < from.blocks)
        from.add(b, i, m[held], s[held], max, sums);
    for (int b = rest; b < from.blocks; b += kFewThreads)
      from.add(b, i, from.max_of(b, i), from.sum_of(b, i), max, sums);
  }
  sums.sum = cta_reduce<Add<Fixed>>(sums.sum, totals);
  if (from.stats.u != nullptr) sums.entropy_sum = cta_reduce<Add<Fixed>>(sums.entropy_sum, totals);
  if (threadIdx.x == 0) from.write(problem, list, position, max, sums);
  if constexpr (sizeof(Real) == 4)
    if (threadIdx.x < 32) meet_late_row(late, list, i, position, max);
}

}  // namespace samebits::cuda
