// What rows add to the gradients of their targets' rows of the weight and elements of the bias. CONTRACT section 4, point 6.
#pragma once

#include "cuda/kernel/segment_sum.cuh"
#include "cuda/prim/pair.cuh"

namespace samebits::cuda {

// y times hidden of the rows with one target; `width` elements at a time where rows are dense and aligned to them.
template <class T, int width>
struct TargetTerms {
  using Real = float;
  static constexpr int kWidth = width, kAhead = width > 1 ? 4 : 1;
  struct alignas(width * sizeof(T)) Elements {
    T value[width];
  };
  struct Values {
    float y;
    Elements hidden;
  };

  core::RowArray<const void> hidden;
  std::int64_t stride;
  const std::int32_t* row;  // by position
  const float* y;

  __device__ __forceinline__ Values load(std::int64_t position, std::int64_t column) const {
    const T* from = hidden.at<T>(row[position]);
    if constexpr (width == 1)
      return {y[position], {{from[column * stride]}}};
    else
      return {y[position], *reinterpret_cast<const Elements*>(from + column)};
  }
  __device__ __forceinline__ static float value_of(T element) {
    if constexpr (sizeof(T) == 2)
      return pair_value<T>(element.bits, 0);
    else
      return element;
  }
  __device__ __forceinline__ static void add(const Values& values, float (&sum)[width]) {
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] = order::fma(values.y, value_of(values.hidden.value[i]), sum[i]);
  }
};

// The same of grad_bias: y alone.
struct TargetOnes {
  using Real = float;
  using Values = float;
  static constexpr int kWidth = 1, kAhead = 8;
  const float* y;

  __device__ __forceinline__ Values load(std::int64_t position, std::int64_t) const { return y[position]; }
  __device__ __forceinline__ static void add(Values value, float (&sum)[1]) { sum[0] = sum[0] + value; }
};

}  // namespace samebits::cuda
