// First-order gradient: one read and one write of the logits. CONTRACT section 1.
#pragma once

#include "cuda/kernel/gradient_vectors.cuh"
#include "cuda/kernel/row_finish.cuh"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

// How the columns of a launch's rows are cut: items (row, part), part fastest, `part_columns` columns each.
struct ColumnSplit {
  std::int64_t first_row;
  int parts;
  int part_columns;
  const void* rows = nullptr;  // GradientShared of every row of the problem; null: each CTA makes its own
};

enum class RowForm : int { kZero, kNan, kLive };

// What all columns of a row share; one thread makes it for the CTA.
template <class Row>
struct GradientShared {
  order::GradientRow<Row> row;
  typename Row::Real target_value;  // dx of the target's column before it is rounded
  std::int64_t target;
  RowForm form;
};

template <class Row>
__device__ typename Row::Real upstream(const core::RowArray<const void>& values, std::int64_t row) {
  using Real = typename Row::Real;
  return values ? *values.at<Real>(row) : Real(0);
}

// +0 in rows that take no part or are all -inf, NaN where M is NaN or +inf.
template <class Row>
__device__ RowForm row_form(const core::LogpProblem& problem, std::int64_t row, std::int64_t id,
                            typename Row::Real saved_max) {
  if (problem.kind(row, id) != core::RowKind::kLive) return RowForm::kZero;
  const order::RowClass kind = order::classify(saved_max);
  if (kind == order::RowClass::kEmpty) return RowForm::kZero;
  return kind == order::RowClass::kNan ? RowForm::kNan : RowForm::kLive;
}

template <class Row>
__device__ void prepare_gradient(const core::LogpProblem& problem, std::int64_t row,
                                 GradientShared<Row>& shared) {
  using Real = typename Row::Real;
  const std::int64_t id = problem.target(row);
  const Real max = static_cast<const Real*>(problem.saved_max)[row];
  shared.target = id;
  shared.form = row_form<Row>(problem, row, id, max);
  if (shared.form != RowForm::kLive) return;
  const order::RowStats<Row> stats{max, load_sum<Row>(problem.saved_sum, row),
                                   load_sum<Row>(problem.saved_entropy_sum, row)};
  const Real it = inverse_temperature<Row>(problem, row);
  const Real z_target = load_logit<Real>(row_bytes(problem.logits, row), problem.dtype, id) * it;
  shared.row = order::gradient_row<Row>(stats, z_target, it, upstream<Row>(problem.grad_logp, row),
                                        upstream<Row>(problem.grad_lse, row),
                                        upstream<Row>(problem.grad_entropy, row));
  shared.target_value = order::gradient_target<Row>(shared.row, z_target);
}

inline constexpr int kRowThreads = 128;

// The same of all rows, a row per thread: where rows have many CTAs, these wait for it only once.
template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    gradient_rows(const __grid_constant__ core::LogpProblem problem, GradientShared<Row>* rows) {
  let_kernel_behind_start();
  const std::int64_t row = blockIdx.x * std::int64_t{kRowThreads} + threadIdx.x;
  if (row < problem.rows) prepare_gradient<Row>(problem, row, rows[row]);
}

// dx of one column, before it is rounded to the type of the logits.
template <class Row>
__device__ __forceinline__ typename Row::Real gradient_at(const GradientShared<Row>& shared,
                                                          std::int64_t column, typename Row::Real x) {
  if (column == shared.target) return shared.target_value;
  return order::gradient_column<Row>(shared.row, x * shared.row.inverse_temperature);
}

// Any element type, alignment and contract: an element per thread and step.
template <class Row>
__global__ void __launch_bounds__(kGradientThreads)
    logp_backward_any(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Real = typename Row::Real;
  __shared__ GradientShared<Row> shared;
  const std::int64_t row = split.first_row + blockIdx.x / split.parts;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % split.parts) * split.part_columns;
  const std::int64_t last = min(first + split.part_columns, problem.columns);
  if (threadIdx.x == 0) prepare_gradient<Row>(problem, row, shared);
  __syncthreads();

  const char* x = row_bytes(problem.logits, row);
  char* dx = row_bytes(problem.grad_logits, row);
  for (std::int64_t i = first + threadIdx.x; i < last; i += kGradientThreads) {
    Real value = 0;
    if (i < problem.vocab && shared.form != RowForm::kZero)
      value = shared.form == RowForm::kNan
                  ? order::canonical_nan<Real>()
                  : gradient_at<Row>(shared, i, load_logit<Real>(x, problem.dtype, i));
    store_rounded(dx, problem.dtype, i, value);
  }
}

// What a CTA takes of a row of logits and gradient that are equally far from a multiple of 16 bytes. Vectors begin at the
// first aligned column, `head`, and end with the last whole one of true columns.
template <class T>
struct GradientPart {
  static constexpr int kCount = Vector<T>::kCount;
  std::int64_t row;
  const T* x;
  T* dx;
  int vocab, head, first, last, end;  // columns; vectors are those from `first` to `end`

  __device__ __forceinline__ GradientPart(const core::LogpProblem& problem, const ColumnSplit& split)
      : row(split.first_row + blockIdx.x / split.parts),
        x(problem.logits.at<T>(row)),
        dx(problem.grad_logits.at<T>(row)),
        vocab(static_cast<int>(problem.vocab)) {
    const int columns = static_cast<int>(problem.columns);
    const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(x) % 16 / sizeof(T));
    head = min((kCount - past) % kCount, columns);
    first = head + static_cast<int>(blockIdx.x % split.parts) * split.part_columns;
    last = min(first + split.part_columns, columns);
    end = min(last, head + max(vocab - head, 0) / kCount * kCount);
  }

  // The others, one by one: columns before the first vector, those after the last one, and padding.
  __device__ __forceinline__ void other_columns(const GradientShared<order::RowV1>& shared) const {
    const auto one = [&](int i) {
      float value = 0;
      if (i < vocab && shared.form != RowForm::kZero)
        value = shared.form == RowForm::kNan ? order::canonical_nan<float>()
                                             : gradient_at<order::RowV1>(shared, i, order::to_float(x[i]));
      dx[i] = order::round_to<T>(value);
    };
    if (first == head && static_cast<int>(threadIdx.x) < head) one(threadIdx.x);
    for (int i = max(end, first) + static_cast<int>(threadIdx.x); i < last; i += kGradientThreads) one(i);
  }
};

// The row of `split.rows`, by all threads; to be seen after they meet. The kernel ahead made it.
__device__ __forceinline__ void take_row(GradientShared<order::RowV1>& shared, const ColumnSplit& split,
                                         std::int64_t row) {
  constexpr int kWords = sizeof(shared) / 4;
  static_assert(sizeof(shared) % 4 == 0 && kWords <= kGradientThreads);
  wait_for_kernel_ahead();
  const auto* from = reinterpret_cast<const std::uint32_t*>(
      static_cast<const GradientShared<order::RowV1>*>(split.rows) + row);
  if (threadIdx.x < kWords) reinterpret_cast<std::uint32_t*>(&shared)[threadIdx.x] = from[threadIdx.x];
}

// Of all columns of a row without a gradient.
__device__ __forceinline__ float constant_gradient(RowForm form) {
  return form == RowForm::kNan ? order::canonical_nan<float>() : 0.0f;
}

// CTAs of a multiprocessor; code for SM120 would spill with three.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr int kGradientCtas = 2;
#else
inline constexpr int kGradientCtas = 3;
#endif

// A CTA walks over its part of a row, kVectors vectors per thread at a time, and reads the next ones before it computes on
// the present ones.
inline constexpr int kVectors = 4;
template <class T>
inline constexpr int kStepColumns = kGradientThreads * kVectors * Vector<T>::kCount;

template <class T, bool entropy>
__global__ void __launch_bounds__(kGradientThreads, kGradientCtas)
    logp_backward_tile(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Row = order::RowV1;
  using Step = Vectors<T, kVectors>;
  constexpr int kStep = kStepColumns<T>;
  __shared__ GradientShared<Row> shared;
  const GradientPart<T> part(problem, split);
  const int end = part.end, column = part.first + static_cast<int>(threadIdx.x) * Vector<T>::kCount;
  const char* x = reinterpret_cast<const char*>(part.x + column);
  char* dx = reinterpret_cast<char*>(part.dx + column);

  if (split.rows == nullptr && threadIdx.x == 0) prepare_gradient<Row>(problem, part.row, shared);
  Step next;
  next.load(x, column, end);
  if (split.rows != nullptr) take_row(shared, split, part.row);
  __syncthreads();

  if (shared.form == RowForm::kLive) {
    const order::GradientRow<Row> g = shared.row;
    int at = column;
    Step other;
    const auto step = [&](Step& present, Step& behind) {
      if (at + kStep < end) behind.load(x + kStep * sizeof(T), at + kStep, end);
      gradient_of<entropy>(present, g);
      present.store(dx, at, end);
      at += kStep, x += kStep * sizeof(T), dx += kStep * sizeof(T);
    };
    while (at < end) {
      step(next, other);
      if constexpr (sizeof(T) == 2)
        next = other;  // the code twice would need too many registers
      else if (at < end)
        step(other, next);
    }
  } else {
    Step constant;
    constant.fill(constant_gradient(shared.form));
    for (int at = column; at < end; at += kStep, dx += kStep * sizeof(T)) constant.store(dx, at, end);
  }
  part.other_columns(shared);
  if (shared.form != RowForm::kLive || shared.target < part.first || shared.target >= end) return;
  __syncthreads();  // the target's column was written like the others
  if (threadIdx.x == 0) part.dx[shared.target] = order::round_to<T>(shared.target_value);
}

}  // namespace samebits::cuda
