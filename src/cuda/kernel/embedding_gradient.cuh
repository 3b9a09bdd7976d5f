// The gradient of a table whose rows were looked up. CONTRACT section 5.
#pragma once

#include "core/embedding_problem.h"
#include "cuda/kernel/embedding_items.cuh"
#include "cuda/kernel/segment_sum.cuh"
#include "order/number.h"

namespace samebits::cuda {

// Rows of the upstream, one element at a time, or `width` of rows that are evenly spaced, dense and aligned to 16 bytes.
template <class T, int width>
struct GradTerms {
  using Real = std::conditional_t<sizeof(T) == 8, double, float>;
  static constexpr int kWidth = width, kAhead = width > 1 ? 8 : 4;
  struct alignas(width * sizeof(T)) Values {
    T value[width];
  };

  const T* grad;
  // Any rows are found by `index`; evenly spaced ones cost less by a stride.
  std::conditional_t<width == 1, core::RowIndex, std::int64_t> rows;
  std::int64_t stride;

  explicit GradTerms(const core::EmbeddingProblem& problem)
      : grad(static_cast<const T*>(problem.grad.data)), stride(problem.grad_stride) {
    if constexpr (width == 1)
      rows = problem.grad.index;
    else
      rows = problem.grad.index.rank == 0 ? 0 : problem.grad.index.strides[0];
  }

  __device__ __forceinline__ Values load(std::int64_t position, std::int64_t column) const {
    if constexpr (width == 1)
      return {{grad[rows.offset(position) + column * stride]}};
    else
      return *reinterpret_cast<const Values*>(grad + position * rows + column);
  }
  __device__ __forceinline__ static void add(const Values& values, Real (&sum)[width]) {
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] = sum[i] + order::widen<Real>(values.value[i]);
  }
};

// Every row of the gradient, or those that ids refer to of an accumulator.
template <class T, int width, bool accumulate>
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_gradient(const __grid_constant__ core::EmbeddingProblem problem,
                       const __grid_constant__ GradTerms<T, width> terms, const __grid_constant__ IdRuns runs,
                       const LongRuns<typename GradTerms<T, width>::Real> long_runs, const ItemSplit split) {
  using Real = typename GradTerms<T, width>::Real;
  using Out = std::conditional_t<accumulate, Real, T>;
  struct alignas(width * sizeof(Out) < 16 ? width * sizeof(Out) : 16) Outputs {
    Out value[width];
  };
  SAMEBITS_ROLLED
  for (int step = 0; step < kEmbeddingSteps; ++step) {
    const Item item = item_of(split, step);
    if (item.row >= split.rows) return;
    const IdRun run = runs.run[item.row];
    const bool occurs = run.first != run.end;
    if (accumulate && !occurs) continue;
    const std::int64_t column = item.piece * width;
    auto* to = reinterpret_cast<Outputs*>(static_cast<Out*>(problem.grad_weight) +
                                          item.row * problem.grad_weight_stride + column);
    Real sum[width] = {};
    if (occurs) sum_run(terms, runs, run, long_runs, column, sum);
    Outputs outputs;
    if constexpr (accumulate) outputs = *to;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if constexpr (accumulate)
        outputs.value[i] = order::round_to<Out>(outputs.value[i] + sum[i]);
      else
        outputs.value[i] = order::round_to<Out>(sum[i]);
    }
    *to = outputs;
  }
}

}  // namespace samebits::cuda
