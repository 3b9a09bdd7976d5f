// The end of a head's forward pass: block statistics into the outputs of 32 rows at a time.
#pragma once

#include "cuda/kernel/row_finish.cuh"
#include "cuda/launch/head_rows.h"

namespace samebits::cuda {

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

// `stats` are m, s and u of a range, block by block; `target_logit` is by position.
template <class Row>
__global__ void __launch_bounds__(32 * kFinishWarps)
    finish_rows(const __grid_constant__ core::LogpProblem problem, const __grid_constant__ HeadRows list,
                const PositionRange range, const BlockStats<typename Row::Real> stats,
                const typename Row::Real* target_logit, int blocks) {
  using Real = typename Row::Real;
  using Fixed = typename Row::Fixed;
  __shared__ union {
    Real max[kFinishWarps][kFinishRows];
    Fixed sum[kFinishWarps][kFinishRows];
  } shared;
  const std::int64_t i = blockIdx.x * std::int64_t{kFinishRows} + threadIdx.x % 32;
  const std::int64_t position = range.first + i;
  const bool mine = i < range.rows && position < *list.count;
  const int warp = threadIdx.x / 32;

  Real max = -order::infinity<Real>();
  if (mine)
    for (int b = warp; b < blocks; b += kFinishWarps) max = max_nan(max, stats.m[b * range.rows + i]);
  max = combine_warps<MaxNan<Real>>(max, shared.max);

  RowSums<Row> sums{0, 0};
  if (mine && order::classify(max) == order::RowClass::kFinite)
    for (int b = warp; b < blocks; b += kFinishWarps) {
      const Real m = stats.m[b * range.rows + i], s = stats.s[b * range.rows + i];
      sums.sum += order::block_to_sum<Row>(m, s, max);
      if (stats.u != nullptr)
        sums.entropy_sum += order::block_to_entropy_sum<Row>(m, s, stats.u[b * range.rows + i], max);
    }
  sums.sum = combine_warps<Add<Fixed>>(sums.sum, shared.sum);
  if (stats.u != nullptr) sums.entropy_sum = combine_warps<Add<Fixed>>(sums.entropy_sum, shared.sum);

  if (!mine || warp != 0) return;
  const Real it =
      list.inverse_tau == nullptr ? Real(1) : static_cast<const Real*>(list.inverse_tau)[position];
  write_live_row<Row>(problem, list.row[position], max, sums, target_logit[position] * it);
}

}  // namespace samebits::cuda
