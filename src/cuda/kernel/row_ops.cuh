// probability and row_sum, the primitives of derivatives of any order. CONTRACT, end of section 1.
#pragma once

#include "core/row_sum_problem.h"
#include "cuda/kernel/block_warp.cuh"
#include "cuda/kernel/logp_backward.cuh"

namespace samebits::cuda {

template <class Row>
__global__ void __launch_bounds__(kGradientThreads)
    probability_any(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Real = typename Row::Real;
  const std::int64_t row = split.first_row + blockIdx.x / split.parts;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % split.parts) * split.part_columns;
  const std::int64_t last = min(first + split.part_columns, problem.columns);
  const Real max = static_cast<const Real*>(problem.saved_max)[row];
  const RowForm form = row_form<Row>(problem, row, problem.target(row), max);
  const double total = Row::sum_to_double(load_sum<Row>(problem.saved_sum, row)) * Row::kScaleDown;
  const Real scale = Real(1) / static_cast<Real>(total);
  const Real it = inverse_temperature<Row>(problem, row);

  const char* x = row_bytes(problem.logits, row);
  Real* p = reinterpret_cast<Real*>(row_bytes(problem.probabilities, row));
  for (std::int64_t i = first + threadIdx.x; i < last; i += kGradientThreads) {
    Real value = 0;
    if (i < problem.vocab && form != RowForm::kZero)
      value = form == RowForm::kNan
                  ? order::canonical_nan<Real>()
                  : order::probability<Row>(load_logit<Real>(x, problem.dtype, i) * it, max, scale);
    p[i] = value;
  }
}

// Sums of blocks meet in a tree over the block index. A CTA does a subtree over a power of two of blocks, at most this
// many; as many subtrees make the longest row.
inline constexpr int kSubtree = 1024, kSmallSubtree = 32;
static_assert(order::kMaxVocab / order::kBlock / kSmallSubtree <= kSubtree);

struct SubtreeSplit {
  std::int64_t first_row;
  int subtrees, blocks;  // of a row, of a subtree
};

// The tree over `count` values in shared memory, missing ones +0; the result in values[0]. Called by a whole CTA.
template <class Real>
__device__ void tree_sum(Real* values, int count) {
  for (; count > 1; count = (count + 1) / 2) {
    // A step reads pairs and writes in front of them, so it goes through registers.
    constexpr int kPairs = kSubtree / 2 / (32 * kBlockWarps);
    Real sums[kPairs];
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const int i = 2 * (threadIdx.x + k * 32 * kBlockWarps);
      sums[k] = i < count ? values[i] + (i + 1 < count ? values[i + 1] : Real(0)) : Real(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const int i = threadIdx.x + k * 32 * kBlockWarps;
      if (2 * i < count) values[i] = sums[k];
    }
    __syncthreads();
  }
}

template <class Real>
__device__ void store_row_sum(const core::RowSumProblem& problem, std::int64_t row, Real sum) {
  *problem.sums.at<Real>(row) = order::round_to<Real>(sum);
}

// Items (row, subtree), subtree fastest. With one subtree the row is finished, else `partial` [row, subtree] gets it.
template <class Real>
__global__ void __launch_bounds__(32 * kBlockWarps)
    row_sum_blocks(const __grid_constant__ core::RowSumProblem problem, const SubtreeSplit split,
                   Real* partial) {
  __shared__ Real sums[kSubtree];
  const std::int64_t row = split.first_row + blockIdx.x / split.subtrees;
  const int lane = threadIdx.x % 32, first = static_cast<int>(blockIdx.x % split.subtrees) * split.blocks;
  const int count = min(static_cast<int>(order::block_count(problem.columns)) - first, split.blocks);
  const char* values = problem.columns > 0 ? row_bytes(problem.values, row) : nullptr;
  for (int b = threadIdx.x / 32; b < count; b += kBlockWarps) {
    Real v[4], sum = 0;
    const std::int64_t column = (static_cast<std::int64_t>(first) + b) * order::kBlock + lane;
    load_logits<4, 32>(v, values, problem.dtype, column, problem.columns, Real(0));
#pragma unroll
    for (const Real value : v) sum = sum + value;
    sum = combine_lanes(sum);
    if (lane == 0) sums[b] = sum;
  }
  __syncthreads();
  tree_sum(sums, count);
  if (threadIdx.x != 0) return;
  const Real sum = count > 0 ? sums[0] : Real(0);
  if (split.subtrees == 1)
    store_row_sum(problem, row, sum);
  else
    partial[blockIdx.x] = sum;
}

// The tree over a row's subtrees; a CTA per row.
template <class Real>
__global__ void __launch_bounds__(32 * kBlockWarps)
    row_sum_subtrees(const __grid_constant__ core::RowSumProblem problem, const SubtreeSplit split,
                     const Real* partial) {
  __shared__ Real sums[kSubtree];
  for (int i = threadIdx.x; i < split.subtrees; i += 32 * kBlockWarps)
    sums[i] = partial[static_cast<std::int64_t>(blockIdx.x) * split.subtrees + i];
  __syncthreads();
  tree_sum(sums, split.subtrees);
  if (threadIdx.x == 0) store_row_sum(problem, split.first_row + blockIdx.x, sums[0]);
}

}  // namespace samebits::cuda
