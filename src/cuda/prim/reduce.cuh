// Reductions whose order cannot matter: maxima and integer sums over a warp and a CTA.
#pragma once

#include "order/fixed_point.h"
#include "order/number.h"

namespace samebits::cuda {

inline constexpr unsigned kWarp = 0xffffffffu;  // mask of all lanes

__device__ __forceinline__ float max_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
// NaN if either is NaN.
__device__ __forceinline__ double max_nan(double a, double b) {
  if (order::is_nan(a) || order::is_nan(b)) return order::canonical_nan<double>();
  return a > b ? a : b;
}

template <class Real>
struct MaxNan {
  __device__ Real operator()(Real a, Real b) const { return max_nan(a, b); }
};
template <class Fixed>
struct Add {
  __device__ Fixed operator()(Fixed a, Fixed b) const { return a + b; }
};

template <class Value>
__device__ __forceinline__ Value shuffle_xor(Value value, int mask) {
  if constexpr (sizeof(Value) == 16) {
    const auto low = static_cast<std::uint64_t>(value), high = static_cast<std::uint64_t>(value >> 64);
    return (static_cast<Value>(__shfl_xor_sync(kWarp, high, mask)) << 64) | __shfl_xor_sync(kWarp, low, mask);
  } else if constexpr (sizeof(Value) == 8) {
    return order::bits_to<Value>(__shfl_xor_sync(kWarp, order::bits_to<unsigned long long>(value), mask));
  } else {
    return __shfl_xor_sync(kWarp, value, mask);
  }
}

template <class Op, class Value>
__device__ __forceinline__ Value warp_reduce(Value value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value = Op()(value, shuffle_xor(value, mask));
  return value;
}

// NaN, which must be the canonical one, if any lane has it.
__device__ __forceinline__ float warp_max_nan(float value) {
  const int bits = __float_as_int(value);  // as integers, negative numbers are in reverse order
  const int ordered = __reduce_max_sync(kWarp, bits ^ ((bits >> 31) & 0x7fffffff));
  return __int_as_float(ordered ^ ((ordered >> 31) & 0x7fffffff));
}

// The bits of the largest |element|: magnitudes compare as their bits, and NaN above infinity above all numbers.
__device__ __forceinline__ void raise_to(std::uint32_t* most, std::uint32_t bits) {
  bits = __reduce_max_sync(kWarp, bits);
  if (threadIdx.x % 32 == 0 && bits > 0) atomicMax(most, bits);
}

// Sum over a warp of integers whose sum is below 2^63.
__device__ __forceinline__ std::uint64_t warp_sum(std::uint64_t value) {
  constexpr unsigned kDigit = (1u << 21) - 1;
  const std::uint64_t low = __reduce_add_sync(kWarp, static_cast<unsigned>(value) & kDigit);
  const std::uint64_t middle = __reduce_add_sync(kWarp, static_cast<unsigned>(value >> 21) & kDigit);
  const std::uint64_t high = __reduce_add_sync(kWarp, static_cast<unsigned>(value >> 42));
  return (high << 42) + (middle << 21) + low;
}

// Every thread of the CTA gets the result; `shared` holds one value per warp and is free again afterwards.
template <class Op, class Value>
__device__ __forceinline__ Value cta_reduce(Value value, Value* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  value = warp_reduce<Op>(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < warps; ++warp) value = Op()(value, shared[warp]);
  __syncthreads();
  return value;
}

}  // namespace samebits::cuda
