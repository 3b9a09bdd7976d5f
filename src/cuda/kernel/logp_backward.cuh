// First-order gradient: one read and one write of the logits. CONTRACT section 1.
#pragma once

#include "cuda/kernel/row_finish.cuh"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/pair.cuh"

namespace samebits::cuda {

inline constexpr int kGradientThreads = 256;

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

// 16 bytes of logits, and of their gradient.
template <class T>
struct Vector {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  std::uint32_t words[4];

  // Any values, at no cost: one that is not loaded is computed on, too, and is not stored.
  __device__ __forceinline__ Vector() {
#pragma unroll
    for (std::uint32_t& word : words) asm("" : "=r"(word));
  }
  __device__ __forceinline__ void load(const char* from) {
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  }
  __device__ __forceinline__ void store(char* to) const {
    __stcs(reinterpret_cast<uint4*>(to), make_uint4(words[0], words[1], words[2], words[3]));
  }
  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4)
      return __uint_as_float(words[i]);
    else
      return pair_value<T>(words[i / 2], i % 2);
  }
  // Rounds once.
  __device__ __forceinline__ void set(const float (&value)[kCount]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4)
        words[i] = __float_as_uint(value[i]);
      else
        words[i] = pair_of<T>(value[2 * i], value[2 * i + 1]);
    }
  }
};

// Under row.v1, rows of logits and gradient equally far from a multiple of 16 bytes. A CTA walks over its part of a row, kVectors vectors per thread at a time, and
// reads the next ones before it computes on the present ones.
inline constexpr int kVectors = 4;
template <class T>
inline constexpr int kStepColumns = kGradientThreads * kVectors * Vector<T>::kCount;

template <class T>
struct Vectors {
  static constexpr int kCount = Vector<T>::kCount, kStride = kGradientThreads * kCount;
  Vector<T> at[kVectors];

  // `row` points at this thread's first column, which is `column`; vectors end at `end`.
  __device__ __forceinline__ void load(const char* row, int column, int end) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (column + v * kStride < end) at[v].load(row + v * kStride * static_cast<int>(sizeof(T)));
  }
  __device__ __forceinline__ void store(char* row, int column, int end) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (column + v * kStride < end) at[v].store(row + v * kStride * static_cast<int>(sizeof(T)));
  }
};

// The smallest logit of a thread.
template <class T>
__device__ __forceinline__ float lowest_of(const Vectors<T>& vectors) {
  if constexpr (sizeof(T) == 4) {
    float low = vectors.at[0].get(0);
#pragma unroll
    for (int i = 1; i < 4 * kVectors; ++i) low = fminf(low, vectors.at[i / 4].get(i % 4));
    return low;
  } else {
    std::uint32_t low = vectors.at[0].words[0];
#pragma unroll
    for (int i = 1; i < 4 * kVectors; ++i) low = pair_min<T>(low, vectors.at[i / 4].words[i % 4]);
    return fminf(pair_value<T>(low, 0), pair_value<T>(low, 1));
  }
}

// The gradient of columns that are not the target, in place of their logits. `scaled`: there is a temperature; `clamped`:
// some may lie below the cut, or have a probability that rounds to 0.
template <class T, bool entropy, bool scaled, bool clamped>
__device__ __forceinline__ void gradient_of(Vectors<T>& vectors, const order::GradientRow<order::RowV1>& g) {
#pragma unroll
  for (Vector<T>& vector : vectors.at) {
    float value[Vector<T>::kCount];
#pragma unroll
    for (int i = 0; i < Vector<T>::kCount; ++i) {
      const float x = vector.get(i);
      const float d = (scaled ? x * g.inverse_temperature : x) - g.max;
      const float p = order::exp_of_number(d) * g.scale;
      const float k = entropy ? order::fma(g.slope, d, g.offset) : g.offset;
      float result = k * p;
      if constexpr (scaled) result = result * g.inverse_temperature;
      value[i] = clamped && (d < order::RowV1::kCut || p == 0.0f) ? 0.0f : result;
    }
    vector.set(value);
  }
}

template <class T, bool entropy>
__device__ __forceinline__ void gradient_of(Vectors<T>& vectors, const order::GradientRow<order::RowV1>& g) {
  constexpr float kLeastScale = 0x1p-22f;  // of it and an exponential the product is not 0
  if (lowest_of(vectors) * g.inverse_temperature - g.max < order::RowV1::kCut || g.scale < kLeastScale)
    gradient_of<T, entropy, true, true>(vectors, g);
  else if (g.inverse_temperature != 1.0f)
    gradient_of<T, entropy, true, false>(vectors, g);
  else
    gradient_of<T, entropy, false, false>(vectors, g);
}

// CTAs of a multiprocessor; code for SM120 would spill with three.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr int kGradientCtas = 2;
#else
inline constexpr int kGradientCtas = 3;
#endif

template <class T, bool entropy>
__global__ void __launch_bounds__(kGradientThreads, kGradientCtas)
    logp_backward_tile(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Row = order::RowV1;
  constexpr int kCount = Vector<T>::kCount, kStep = kStepColumns<T>;
  __shared__ GradientShared<Row> shared;
  const std::int64_t row = split.first_row + blockIdx.x / split.parts;
  const T* row_x = problem.logits.at<T>(row);
  T* row_dx = problem.grad_logits.at<T>(row);
  // Vectors begin at the first aligned column, `head`, and end with the last whole one of true columns.
  const int vocab = static_cast<int>(problem.vocab), columns = static_cast<int>(problem.columns);
  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row_x) % 16 / sizeof(T));
  const int head = min((kCount - past) % kCount, columns);
  const int first = head + static_cast<int>(blockIdx.x % split.parts) * split.part_columns;
  const int last = min(first + split.part_columns, columns);
  const int end = min(last, head + max(vocab - head, 0) / kCount * kCount);
  const int column = first + static_cast<int>(threadIdx.x) * kCount;
  const char* x = reinterpret_cast<const char*>(row_x + column);
  char* dx = reinterpret_cast<char*>(row_dx + column);

  if (split.rows == nullptr && threadIdx.x == 0) prepare_gradient<Row>(problem, row, shared);
  Vectors<T> next;
  next.load(x, column, end);
  if (split.rows != nullptr) {
    constexpr int kWords = sizeof(shared) / 4;
    static_assert(sizeof(shared) % 4 == 0 && kWords <= kGradientThreads);
    wait_for_kernel_ahead();
    const auto* from =
        reinterpret_cast<const std::uint32_t*>(static_cast<const GradientShared<Row>*>(split.rows) + row);
    if (threadIdx.x < kWords) reinterpret_cast<std::uint32_t*>(&shared)[threadIdx.x] = from[threadIdx.x];
  }
  __syncthreads();

  const RowForm form = shared.form;
  if (form == RowForm::kLive) {
    const order::GradientRow<Row> g = shared.row;
    int at = column;
    Vectors<T> other;
    const auto step = [&](Vectors<T>& present, Vectors<T>& behind) {
      if (at + kStep < end) behind.load(x + kStep * sizeof(T), at + kStep, end);
      gradient_of<T, entropy>(present, g);
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
    Vectors<T> constant;
    float value[kCount];
#pragma unroll
    for (float& element : value) element = form == RowForm::kNan ? order::canonical_nan<float>() : 0.0f;
#pragma unroll
    for (Vector<T>& vector : constant.at) vector.set(value);
    for (int at = column; at < end; at += kStep, dx += kStep * sizeof(T)) constant.store(dx, at, end);
  }

  // One by one: columns before the first vector, those after the last one, and padding.
  const auto one = [&](int i) {
    float value = 0;
    if (i < vocab && form != RowForm::kZero)
      value = form == RowForm::kNan ? order::canonical_nan<float>()
                                    : gradient_at<Row>(shared, i, order::to_float(row_x[i]));
    row_dx[i] = order::round_to<T>(value);
  };
  if (first == head && static_cast<int>(threadIdx.x) < head) one(threadIdx.x);
  for (int i = max(end, first) + static_cast<int>(threadIdx.x); i < last; i += kGradientThreads) one(i);
  if (form != RowForm::kLive || shared.target < first || shared.target >= end) return;
  __syncthreads();  // the target's column was written like the others
  if (threadIdx.x == 0) row_dx[shared.target] = order::round_to<T>(shared.target_value);
}

}  // namespace samebits::cuda
