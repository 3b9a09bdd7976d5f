// The end of grad_hidden. CONTRACT section 4, point 5.
#pragma once

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/launch/head_gradient.h"

namespace samebits::cuda {

inline constexpr int kHiddenThreads = 256;

// A CTA per row of the call; rows that take no part get +0. `sums` are N, or in binary64 the sums themselves.
template <class T, class Row>
__global__ void __launch_bounds__(kHiddenThreads)
    finish_hidden(const __grid_constant__ core::LinearLogpProblem head,
                  const __grid_constant__ HeadGradientRows<Row> at, const std::int64_t* sums,
                  const __grid_constant__ core::RowArray<void> grad) {
  using Real = typename Row::Real;
  __shared__ T* start;
  if (threadIdx.x == 0) start = grad.at<T>(blockIdx.x);
  __syncthreads();
  T* const out = start;
  const std::int64_t position = at.list.position[blockIdx.x], size = head.hidden_size;
  if (position < 0) {
    for (std::int64_t k = threadIdx.x; k < size; k += kHiddenThreads) out[k] = order::round_to<T>(0.0f);
    return;
  }
  sums += position * size;
  if constexpr (sizeof(Real) == 8) {
    for (std::int64_t k = threadIdx.x; k < size; k += kHiddenThreads)
      out[k] = order::round_to<T>(reinterpret_cast<const double*>(sums)[k]);
  } else {
    const order::PRow& row = at.form[position];
    const float largest = __uint_as_float(at.scalars->largest_weight);
    // A head of zeros adds nothing, whatever P is and whatever an engine made of it.
    const bool adds = largest != 0.0f;
    const bool nan = row.kind == order::RowClass::kNan || !order::is_finite(largest) ||
                     (adds && at.nan_row[position] != 0);
    const double down = order::power_of_2(-at.exponent[position]);
    const float scale = row.scale, y = at.y[position];
    const T* weight =
        static_cast<const T*>(head.weight.data) + at.list.target[position] * head.weight.row_stride;
    for (std::int64_t k = threadIdx.x; k < size; k += kHiddenThreads) {
      const float a = adds ? static_cast<float>(static_cast<double>(sums[k]) * down) : 0.0f;
      const float value = order::fma(y, order::to_float(weight[k * head.weight.column_stride]), scale * a);
      out[k] = order::round_to<T>(nan ? order::canonical_nan<float>() : value);
    }
  }
}

}  // namespace samebits::cuda
