// probability and row_sum, the primitives of derivatives of any order. CONTRACT, end of section 1.
#pragma once

#include "core/row_sum_problem.h"
#include "cuda/kernel/block_warp.cuh"
#include "cuda/kernel/logp_backward.cuh"

namespace samebits::cuda {

// What all probabilities of a row share; one thread makes it for the CTA.
template <class Row>
struct ProbabilityRow {
  typename Row::Real max, scale, inverse_temperature;
  RowForm form;
};

template <class Row>
__device__ void prepare_probability(const core::LogpProblem& problem, std::int64_t row,
                                    ProbabilityRow<Row>& shared) {
  using Real = typename Row::Real;
  shared.max = static_cast<const Real*>(problem.saved_max)[row];
  shared.form = row_form<Row>(problem, row, problem.target(row), shared.max);
  const double total = Row::sum_to_double(load_sum<Row>(problem.saved_sum, row)) * Row::kScaleDown;
  shared.scale = Real(1) / static_cast<Real>(total);
  shared.inverse_temperature = inverse_temperature<Row>(problem, row);
}

template <class Row>
__device__ __forceinline__ typename Row::Real probability_at(const ProbabilityRow<Row>& shared,
                                                             bool true_column, typename Row::Real x) {
  using Real = typename Row::Real;
  if (!true_column || shared.form == RowForm::kZero) return Real(0);
  if (shared.form == RowForm::kNan) return order::canonical_nan<Real>();
  return order::probability<Row>(x * shared.inverse_temperature, shared.max, shared.scale);
}

// Any element type, alignment and contract: an element per thread and step.
template <class Row>
__global__ void __launch_bounds__(kGradientThreads)
    probability_any(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Real = typename Row::Real;
  __shared__ ProbabilityRow<Row> shared;
  const std::int64_t row = split.first_row + blockIdx.x / split.parts;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % split.parts) * split.part_columns;
  const std::int64_t last = min(first + split.part_columns, problem.columns);
  if (threadIdx.x == 0) prepare_probability<Row>(problem, row, shared);
  __syncthreads();
  const char* x = row_bytes(problem.logits, row);
  Real* p = problem.probabilities.at<Real>(row);
  for (std::int64_t i = first + threadIdx.x; i < last; i += kGradientThreads) {
    const bool true_column = i < problem.vocab;
    p[i] = probability_at<Row>(shared, true_column,
                               true_column ? load_logit<Real>(x, problem.dtype, i) : Real(0));
  }
}

// Four columns: 16 bytes of probabilities, 16 or 8 of logits.
template <class T>
struct Four {
  std::uint32_t words[sizeof(T)];

  __device__ __forceinline__ void load(const T* from) {
    if constexpr (sizeof(T) == 4) {
      const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
      words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else {
      const uint2 v = __ldcs(reinterpret_cast<const uint2*>(from));
      words[0] = v.x, words[1] = v.y;
    }
  }
  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4)
      return __uint_as_float(words[i]);
    else
      return pair_value<T>(words[i / 2], i % 2);
  }
};

inline constexpr int kFours = 4;  // per thread and step
inline constexpr int kFourColumns = kGradientThreads * kFours * 4;

// Under row.v1, rows of logits and probabilities equally many elements past a multiple of four.
template <class T>
__global__ void __launch_bounds__(kGradientThreads)
    probability_tile(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Row = order::RowV1;
  __shared__ ProbabilityRow<Row> shared;
  const std::int64_t row = split.first_row + blockIdx.x / split.parts;
  const T* x = problem.logits.at<T>(row);
  float* p = problem.probabilities.at<float>(row);
  // Fours begin at the first aligned column, `head`, and end with the last whole one of true columns.
  const int vocab = static_cast<int>(problem.vocab), columns = static_cast<int>(problem.columns);
  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(p) % 16 / 4);
  const int head = min((4 - past) % 4, columns);
  const int first = head + static_cast<int>(blockIdx.x % split.parts) * split.part_columns;
  const int last = min(first + split.part_columns, columns);
  const int end = min(last, head + max(vocab - head, 0) / 4 * 4);
  if (threadIdx.x == 0) prepare_probability<Row>(problem, row, shared);
  __syncthreads();
  const ProbabilityRow<Row> own = shared;

  for (int at = first + static_cast<int>(threadIdx.x) * 4; at < end; at += kFourColumns) {
    Four<T> four[kFours];
#pragma unroll
    for (int v = 0; v < kFours; ++v)
      if (own.form == RowForm::kLive && at + v * kGradientThreads * 4 < end)
        four[v].load(x + at + v * kGradientThreads * 4);
#pragma unroll
    for (int v = 0; v < kFours; ++v) {
      const int column = at + v * kGradientThreads * 4;
      if (column >= end) break;
      float value[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) value[i] = probability_at<Row>(own, true, four[v].get(i));
      __stcs(reinterpret_cast<float4*>(p + column), make_float4(value[0], value[1], value[2], value[3]));
    }
  }

  // One by one: columns before the first four, those after the last one, and padding.
  const auto one = [&](int i) {
    p[i] = probability_at<Row>(own, i < vocab, i < vocab ? order::to_float(x[i]) : 0.0f);
  };
  if (first == head && static_cast<int>(threadIdx.x) < head) one(threadIdx.x);
  for (int i = max(end, first) + static_cast<int>(threadIdx.x); i < last; i += kGradientThreads) one(i);
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
