// First-order gradient: one read and one write of the logits. CONTRACT section 1.
#pragma once

#include "cuda/kernel/row_finish.cuh"
#include "cuda/prim/pair.cuh"

namespace samebits::cuda {

inline constexpr int kGradientThreads = 256;

// How the columns of a launch's rows are cut: items (row, part), part fastest, `part_columns` columns each.
struct ColumnSplit {
  std::int64_t first_row;
  int parts;
  int part_columns;
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

// Rows aligned to 16 bytes under row.v1: kVectors vectors per thread, read by all warps but the
// first before the row's constants are known.
inline constexpr int kVectors = 4;
template <class T>
inline constexpr int kTileColumns = kGradientThreads * kVectors * Vector<T>::kCount;

template <class T, bool entropy>
__global__ void __launch_bounds__(kGradientThreads, 3)
    logp_backward_tile(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
  using Row = order::RowV1;
  constexpr int kCount = Vector<T>::kCount;
  __shared__ GradientShared<Row> shared;
  const std::int64_t row = split.first_row + blockIdx.x / split.parts;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % split.parts) * split.part_columns;
  const char* x = row_bytes(problem.logits, row);
  char* dx = row_bytes(problem.grad_logits, row);
  const auto column_of = [&](int v) { return first + (v * kGradientThreads + threadIdx.x) * kCount; };

  if (threadIdx.x == 0) prepare_gradient<Row>(problem, row, shared);
  // Rows that take no part are not read.
  const bool live = problem.kind(row, problem.target(row)) == core::RowKind::kLive;
  Vector<T> vectors[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    if (live && column_of(v) + kCount <= problem.vocab) vectors[v].load(x + column_of(v) * sizeof(T));
  __syncthreads();

  const order::GradientRow<Row> g = shared.row;
  const RowForm form = shared.form;
  const std::int64_t target = shared.target;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = column_of(v);
    if (form == RowForm::kLive && column + kCount <= problem.vocab) {
      float value[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float d = vectors[v].get(i) * g.inverse_temperature - g.max;
        const float p = order::exp_of_number(d) * g.scale;
        const float k = entropy ? order::fma(g.slope, d, g.offset) : g.offset;
        value[i] = d < Row::kCut ? 0.0f : (k * p) * g.inverse_temperature;
      }
      if (target >= column && target < column + kCount) {
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          if (target == column + i) value[i] = shared.target_value;
      }
      vectors[v].set(value);
      vectors[v].store(dx + column * sizeof(T));
    } else if (column + kCount <= problem.columns &&
               (column + kCount <= problem.vocab || column >= problem.vocab)) {
      float value[kCount];
      const bool nan = form == RowForm::kNan && column < problem.vocab;
#pragma unroll
      for (float& element : value) element = nan ? order::canonical_nan<float>() : 0.0f;
      vectors[v].set(value);
      vectors[v].store(dx + column * sizeof(T));
    } else {
      for (std::int64_t i = column; i < min(column + kCount, problem.columns); ++i) {
        float value = 0;
        if (i < problem.vocab && form != RowForm::kZero)
          value = form == RowForm::kNan ? order::canonical_nan<float>()
                                        : gradient_at<Row>(shared, i, load_logit<float>(x, problem.dtype, i));
        store_rounded(dx, problem.dtype, i, value);
      }
    }
  }
}

}  // namespace samebits::cuda
