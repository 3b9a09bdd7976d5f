// grad_bias: sums over the rows, ascending, in segments. CONTRACT section 4, point 7.
#pragma once

#include "cuda/kernel/head_weight.cuh"

namespace samebits::cuda {

inline constexpr int kBiasThreads = 128;

// Positions of a segment: of 1024 in the P form, of 8192 in binary64, where the sum is a chain of fma64.v1.
template <class Real>
inline constexpr std::int64_t kBiasSegment = sizeof(Real) == 4 ? order::kOccurrences : order::kSegment;

// Columns of P that a call works on.
template <class Stored>
struct BiasColumns {
  const Stored* p;
  std::int64_t p_stride;
  std::int64_t columns;
};

// partial[segment, column] of the segments of a range, which begins with one. Items (segment, part of the columns).
template <class Row, class Stored>
__global__ void __launch_bounds__(kBiasThreads)
    bias_segments(const BiasColumns<Stored> from, const PositionRange range,
                  const __grid_constant__ HeadGradientRows<Row> at, typename Row::Real* partial,
                  std::int64_t parts) {
  using Real = typename Row::Real;
  const std::int64_t segment = blockIdx.x / parts;
  const std::int64_t column = blockIdx.x % parts * kBiasThreads + threadIdx.x;
  if (column >= from.columns) return;
  const std::int64_t first = segment * kBiasSegment<Real>;
  const std::int64_t present = *range.count - range.first;  // of the range
  const std::int64_t end = min(min(first + kBiasSegment<Real>, range.rows), present);
  Real acc = 0;
#pragma unroll 8
  for (std::int64_t i = first; i < end; ++i) {
    const Real p = order::widen<Real>(from.p[i * from.p_stride + column]);
    if constexpr (sizeof(Real) == 8)
      acc = order::fma(1.0, p, acc);
    else
      acc = order::fma(at.form[range.first + i].scale, p, acc);
  }
  partial[segment * from.columns + column] = acc;
}

// total[column] gets the segments of a range that hold rows.
template <class Real>
__global__ void __launch_bounds__(kBiasThreads)
    add_bias_segments(const Real* partial, std::int64_t columns, const PositionRange range, Real* total) {
  const std::int64_t column = blockIdx.x * std::int64_t{kBiasThreads} + threadIdx.x;
  if (column >= columns) return;
  const std::int64_t present = min(*range.count - range.first, range.rows);
  Real sum = range.first == 0 ? Real(0) : total[column];
  for (std::int64_t i = 0; i * kBiasSegment<Real> < present; ++i) sum = sum + partial[i * columns + column];
  total[column] = sum;
}

// In binary64 `runs` has no table, and the total is the gradient.
template <class Real>
__global__ void __launch_bounds__(kBiasThreads)
    finish_bias(const Real* total, std::int64_t columns, const __grid_constant__ IdRuns runs,
                const TargetOnes terms, const LongRuns<float> long_runs, std::int64_t first, char* grad,
                DType dtype, std::int64_t stride) {
  const std::int64_t column = blockIdx.x * std::int64_t{kBiasThreads} + threadIdx.x;
  if (column >= columns) return;
  Real value = total[column];
  if constexpr (sizeof(Real) == 4) {
    const IdRun run = runs.run[first + column];
    float own[1] = {};
    if (run.first != run.end) sum_run(terms, runs.order.position, run, long_runs, 0, own);
    value = value + own[0];
  }
  store_rounded(grad, dtype, (first + column) * stride, value);
}

}  // namespace samebits::cuda
