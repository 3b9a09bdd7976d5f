// Forward pass for any element type, alignment and contract: one warp per block, four columns per lane.
#pragma once

#include "cuda/kernel/row_finish.cuh"

namespace samebits::cuda {

inline constexpr int kAnyWarps = 8;

// How the rows of a launch are cut: items (row, part), part fastest, `part_blocks` blocks each.
struct RowSplit {
  std::int64_t first_row;
  int parts;
  int part_blocks;
};

// The CTA's part of that; its statistics are not placed yet.
template <class Row>
__device__ Part<Row> part_of(const core::LogpProblem& problem, const RowSplit& split) {
  Part<Row> part;
  part.parts = split.parts;
  const unsigned slot = split.parts == 1 ? blockIdx.x : blockIdx.x / split.parts;
  part.slot = slot;
  part.row = split.first_row + slot;
  part.index = static_cast<int>(blockIdx.x - slot * split.parts);
  part.blocks = static_cast<int>(order::block_count(problem.vocab));
  part.first = part.index * split.part_blocks;
  part.count = max(min(split.part_blocks, part.blocks - part.first), 0);
  return part;
}

// Lane l of the warp holds the columns l, l + 32, l + 64, l + 96 of the block: lane 8q + c of the contract is l.
template <class Real>
__device__ __forceinline__ Real combine_lanes(Real lane) {
  lane = lane + shuffle_xor(lane, 8);
  lane = lane + shuffle_xor(lane, 16);
  lane = lane + shuffle_xor(lane, 1);
  lane = lane + shuffle_xor(lane, 2);
  return lane + shuffle_xor(lane, 4);
}

template <class Row>
__global__ void __launch_bounds__(32 * kAnyWarps)
    logp_forward_any(const __grid_constant__ core::LogpProblem problem, const RowSplit split,
                     const PartScratch scratch) {
  using Real = typename Row::Real;
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
  for (int b = threadIdx.x / 32; b < part.count; b += kAnyWarps) {
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
  const Real z_target = load_logit<Real>(x, problem.dtype, id) * it;
  finish_part<Row>(problem, part, z_target, scratch, shared);
}

}  // namespace samebits::cuda
