// The gradient of a table whose rows were looked up. CONTRACT section 5.
#pragma once

#include "core/embedding_problem.h"
#include "cuda/kernel/embedding_items.cuh"
#include "cuda/kernel/segment_sum.cuh"
#include "cuda/prim/pair.cuh"
#include "order/number.h"

namespace samebits::cuda {

// Rows of the upstream, `width` elements at a time. `even`: they are evenly spaced, dense and aligned to that width; else
// they lie in any way, and the width is 1.
template <class T, int width, bool even = true>
struct GradTerms {
  using Real = std::conditional_t<sizeof(T) == 8, double, float>;
  // Wide elements make whole rows quickly; narrow ones have more loads in flight, and long sums wait for nothing else.
  static constexpr int kWidth = width, kAhead = !even ? 1 : width * sizeof(T) >= 16 ? 8 : 32;
  static_assert(even || width == 1);
  struct alignas(width * sizeof(T)) Values {
    T value[width];
  };

  const T* grad;
  std::conditional_t<even, std::int64_t, core::RowIndex> rows;
  std::int64_t stride;

  explicit GradTerms(const core::EmbeddingProblem& problem)
      : grad(static_cast<const T*>(problem.grad.data)), stride(problem.grad_stride) {
    if constexpr (even)
      rows = problem.grad.index.rank == 0 ? 0 : problem.grad.index.strides[0];
    else
      rows = problem.grad.index;
  }

  __device__ __forceinline__ Values load(std::int64_t position, std::int64_t column) const {
    if constexpr (even)
      return *reinterpret_cast<const Values*>(grad + position * rows + column);
    else
      return {{grad[rows.offset(position) + column * stride]}};
  }
  __device__ __forceinline__ static void add(const Values& values, Real (&sum)[width]) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if constexpr (sizeof(T) == 2)
        sum[i] = sum[i] + pair_value<T>(values.value[i].bits, 0);
      else
        sum[i] = sum[i] + values.value[i];
    }
  }
};

// Every row of the gradient, an item each; or, of an accumulator, those that ids refer to, an item for every entry of
// the order.
template <class Terms, class Out, bool accumulate>
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_backward_rows(const __grid_constant__ core::EmbeddingProblem problem,
                            const __grid_constant__ Terms terms, const __grid_constant__ IdRuns runs,
                            const LongRuns<typename Terms::Real> long_runs, const ItemSplit split) {
  using Real = typename Terms::Real;
  constexpr int kWidth = Terms::kWidth;
  struct alignas(kWidth * sizeof(Out) < 16 ? kWidth * sizeof(Out) : 16) Outputs {
    Out value[kWidth];
  };
  const auto row_of = [&](const Item& item) { return accumulate ? runs.order.id[item.row] : item.row; };
  const auto place_of = [&](std::int64_t row, std::int64_t column) {
    return reinterpret_cast<Outputs*>(static_cast<Out*>(problem.grad_weight) +
                                      row * problem.grad_weight_stride + column);
  };
  const Item first = first_item(split);
  // Most rows are zero: they are written first, all at once.
  unsigned occurs = 0;
#pragma unroll
  for (int step = 0; step < kEmbeddingSteps; ++step) {
    const Item item = item_of(split, first, step);
    if (item.row >= split.rows) continue;
    const std::int64_t row = row_of(item);
    if (accumulate && row == kNoId) continue;
    const IdRun run = runs.run[row];
    if (accumulate ? run.first == item.row : run.first != run.end)
      occurs |= 1u << step;
    else if constexpr (!accumulate)
      *place_of(row, item.piece * kWidth) = {};
  }
  SAMEBITS_ROLLED
  for (; occurs != 0; occurs &= occurs - 1) {
    const Item item = item_of(split, first, __ffs(static_cast<int>(occurs)) - 1);
    const std::int64_t row = row_of(item), column = item.piece * kWidth;
    Real sum[kWidth];
    sum_run(terms, runs.order.position, runs.run[row], long_runs, column, sum);
    Outputs* to = place_of(row, column);
    Outputs outputs = {};
    if constexpr (accumulate) outputs = *to;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if constexpr (accumulate)
        outputs.value[i] = order::round_to<Out>(outputs.value[i] + sum[i]);
      else
        outputs.value[i] = order::round_to<Out>(sum[i]);
    }
    *to = outputs;
  }
}

}  // namespace samebits::cuda
