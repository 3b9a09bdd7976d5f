// The end of grad_hidden. CONTRACT section 4, point 5.
#pragma once

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/launch/head_gradient.h"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

inline constexpr int kHiddenThreads = 256;

// How the elements of a row are made of their counts.
template <class T>
struct HiddenEnd {
  bool adds, nan;
  double down;
  float scale, y;
  const T* weight;  // the target's
  std::int64_t stride;

  __device__ __forceinline__ HiddenEnd(const core::LinearLogpProblem& head,
                                       const HeadGradientRows<order::RowV1>& at, std::int64_t position,
                                       int exponent) {
    const order::PRow& row = at.form[position];
    const float largest = __uint_as_float(at.scalars->largest_weight);
    // A head of zeros adds nothing, whatever P is and whatever an engine made of it.
    adds = largest != 0.0f;
    nan = row.kind == order::RowClass::kNan || !order::is_finite(largest) ||
          (adds && at.nan_row[position] != 0);
    down = order::power_of_2(-exponent);
    scale = row.scale;
    y = at.y[position];
    weight = static_cast<const T*>(head.weight.data) + at.list.target[position] * head.weight.row_stride;
    stride = head.weight.column_stride;
  }
  __device__ __forceinline__ T weight_at(std::int64_t k) const { return weight[k * stride]; }
  __device__ __forceinline__ T element(T of_weight, std::int64_t count) const {
    const float a = adds ? static_cast<float>(static_cast<double>(count) * down) : 0.0f;
    const float value = order::fma(y, order::to_float(of_weight), scale * a);
    return order::round_to<T>(nan ? order::canonical_nan<float>() : value);
  }
};

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
    const HiddenEnd<T> end(head, at, position, at.exponent[position]);
    for (std::int64_t k = threadIdx.x; k < size; k += kHiddenThreads)
      out[k] = end.element(end.weight_at(k), sums[k]);
  }
}

inline constexpr int kHeldThreads = 128;

// The same from the sums of the segments, of which the counts are made here; `parts` CTAs to a row, of an even length. All
// that a thread loads of its `width` neighbours is under way at once: caches are cold behind grad_weight.
// `beside_kernel_ahead`: that one waited itself for all that came before, and nothing here depends on it.
template <class T, int width>
__global__ void __launch_bounds__(kHeldThreads)
    finish_held_hidden(const __grid_constant__ core::LinearLogpProblem head,
                       const __grid_constant__ HeadGradientRows<order::RowV1> at, const HeldSums sums,
                       const __grid_constant__ core::RowArray<void> grad, int parts,
                       bool beside_kernel_ahead) {
  if (!beside_kernel_ahead) wait_for_kernel_ahead();
  let_kernel_behind_start();
  struct alignas(4 * width) Sums {
    float value[width];
  };
  __shared__ T* start;
  const std::int64_t row = blockIdx.x / parts, size = head.hidden_size;
  const std::int64_t k = width * (blockIdx.x % parts * std::int64_t{kHeldThreads} + threadIdx.x);
  const std::int64_t position = at.list.position[row];
  if (threadIdx.x == 0) start = grad.at<T>(row);
  __syncthreads();
  if (k < size && position < 0) {
#pragma unroll
    for (int i = 0; i < width; ++i) start[k + i] = order::round_to<T>(0.0f);
  } else if (k < size) {
    const int exponent = counting_exponent(at.form[position], __uint_as_float(at.scalars->largest_weight));
    const HiddenEnd<T> end(head, at, position, exponent);
    T weight[width];
#pragma unroll
    for (int i = 0; i < width; ++i) weight[i] = end.weight_at(k + i);
    const double up = order::power_of_2(exponent);
    const float* const from = sums.data + position * size + k;
    long long count[width] = {};
#pragma unroll 8
    for (std::int64_t segment = 0; segment < sums.segments; ++segment) {
      const Sums sum = *reinterpret_cast<const Sums*>(from + segment * sums.stride);
#pragma unroll
      for (int i = 0; i < width; ++i) count[i] += __double2ll_rn(static_cast<double>(sum.value[i]) * up);
    }
#pragma unroll
    for (int i = 0; i < width; ++i) start[k + i] = end.element(weight[i], count[i]);
  }
  if (beside_kernel_ahead) wait_for_kernel_ahead();
}

}  // namespace samebits::cuda
