// Forward pass of row64.v1, for any element type and alignment: one warp per block, four columns per lane.
#pragma once

#include "cuda/kernel/block_warp.cuh"
#include "cuda/kernel/row_finish.cuh"

namespace samebits::cuda {

__global__ void __launch_bounds__(32 * kBlockWarps)
    logp_forward_64(const __grid_constant__ core::LogpProblem problem, const RowSplit split,
                    const PartScratch scratch) {
  using Row = order::Row64V1;
  using Real = double;
  extern __shared__ char dynamic[];
  __shared__ FinishShared<Row> shared;
  Part<Row> part = part_of<Row>(problem, split);
  part.stats = BlockStats<Real>::at(dynamic, split.part_blocks, problem.wants_entropy());
  const BlockStats<Real>& stats = part.stats;
  const std::int64_t row = part.row;
  const int lane = threadIdx.x % 32;
  const std::int64_t id = problem.target(row);
  const core::RowKind kind = problem.kind(row, id);
  if (kind != core::RowKind::kLive) {
    if (part.index == 0 && threadIdx.x == 0) write_other_row<Row>(problem, row, kind);
    return;
  }

  const char* x = row_bytes(problem.logits, row);
  const Real it = inverse_temperature<Row>(problem, row);
  const Real inf = order::infinity<Real>();
  for (int b = threadIdx.x / 32; b < part.count; b += kBlockWarps) {
    Real z[4];
    load_logits<4, 32>(z, x, problem.dtype, std::int64_t(part.first + b) * order::kBlock + lane,
                       problem.vocab, -inf);
    Real m = -inf;
#pragma unroll
    for (Real& value : z) {
      value = value * it;
      m = max_nan(m, value);
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
    if (stats.u != nullptr) u = combine_lanes(u);
    if (lane == 0) {
      stats.m[b] = m;
      stats.s[b] = m == -inf ? Real(0) : s;
      if (stats.u != nullptr) stats.u[b] = m == -inf ? Real(0) : u;
    }
  }
  if (threadIdx.x == 0) shared.z_target = load_logit<Real>(x, problem.dtype, id) * it;
  finish_part<Row>(problem, part, scratch, shared);
}

}  // namespace samebits::cuda
