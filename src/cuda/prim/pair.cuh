// 16-bit floats two to a word, as the hardware handles them. Type T is order::BFloat16 or order::Float16.
#pragma once

#include <type_traits>

#include "order/number.h"

namespace samebits::cuda {

template <class T>
inline constexpr bool kIsBFloat16 = std::is_same_v<T, order::BFloat16>;

// The larger of each half; NaN if either is NaN.
template <class T>
__device__ __forceinline__ std::uint32_t pair_max(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result;
  if constexpr (kIsBFloat16<T>)
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  else
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// The smaller of each half that is no NaN.
template <class T>
__device__ __forceinline__ std::uint32_t pair_min(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result;
  if constexpr (kIsBFloat16<T>)
    asm("min.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  else
    asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// Half `i` of a word, converted exactly.
template <class T>
__device__ __forceinline__ float pair_value(std::uint32_t word, int i) {
  if constexpr (kIsBFloat16<T>) {
    return __uint_as_float(i != 0 ? word & 0xffff0000u : word << 16);
  } else {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(static_cast<std::uint16_t>(i != 0 ? word >> 16 : word)));
    return result;
  }
}

// Rounds both to nearest, ties to even. The hardware's NaN is the contract's.
template <class T>
__device__ __forceinline__ std::uint32_t pair_of(float low, float high) {
  std::uint32_t result;
  if constexpr (kIsBFloat16<T>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

}  // namespace samebits::cuda
