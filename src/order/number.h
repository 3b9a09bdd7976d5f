// Numbers: the NaNs that are written, and conversions between the operand types. CONTRACT section 0.
#pragma once

#include "order/config.h"

namespace samebits::order {

// Storage of 16-bit floats, so that a pointer says what it points at.
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

inline constexpr std::uint32_t kNanBits32 = 0x7fffffffu;
inline constexpr std::uint16_t kNanBits16 = 0x7fffu;
inline constexpr std::uint64_t kNanBits64 = 0x7ff8000000000000ull;
inline constexpr float kInf32 = bits_to<float>(0x7f800000u);

template <class Real>
SAMEBITS_HD constexpr Real canonical_nan() {
  if constexpr (sizeof(Real) == 4)
    return bits_to<Real>(kNanBits32);
  else
    return bits_to<Real>(kNanBits64);
}

template <class Real>
SAMEBITS_HD constexpr Real infinity() {
  if constexpr (sizeof(Real) == 4)
    return bits_to<Real>(0x7f800000u);
  else
    return bits_to<Real>(0x7ff0000000000000ull);
}

template <class Real>
SAMEBITS_HD constexpr bool is_nan(Real value) {
  return value != value;
}

template <class Real>
SAMEBITS_HD constexpr bool is_finite(Real value) {
  return value - value == Real(0);
}

// Exact widening to fp32.
SAMEBITS_HD constexpr float to_float(float value) { return value; }
SAMEBITS_HD constexpr float to_float(BFloat16 value) {
  return bits_to<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
SAMEBITS_HD constexpr float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_to<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return bits_to<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

// Exact widening to the type the row is computed in.
template <class Real>
SAMEBITS_HD constexpr Real widen(double value) {
  return static_cast<Real>(value);  // only for Real = double
}
template <class Real>
SAMEBITS_HD constexpr Real widen(float value) {
  return static_cast<Real>(value);
}
template <class Real>
SAMEBITS_HD constexpr Real widen(BFloat16 value) {
  return static_cast<Real>(to_float(value));
}
template <class Real>
SAMEBITS_HD constexpr Real widen(Float16 value) {
  return static_cast<Real>(to_float(value));
}

// binary64 to fp32 rounded to odd, so that a second rounding to a 16-bit type is the rounding of the binary64.
SAMEBITS_HD constexpr float round_to_odd(double value) {
  const float near = static_cast<float>(value);
  const double back = static_cast<double>(near);
  if (back == value || is_nan(value)) return near;
  std::uint32_t bits = bits_to<std::uint32_t>(near);
  if (bits & 1u) return near;
  // The other neighbour is the odd one: toward zero when |near| > |value|, else away from it.
  const double magnitude_near = back < 0 ? -back : back;
  const double magnitude = value < 0 ? -value : value;
  bits = magnitude_near > magnitude ? bits - 1u : bits + 1u;
  return bits_to<float>(bits);
}

// RN to the storage type; every NaN becomes the canonical one.
template <class T>
SAMEBITS_HD constexpr T round_to(float value) {
  return is_nan(value) ? canonical_nan<T>() : static_cast<T>(value);  // float and double
}

template <>
SAMEBITS_HD constexpr BFloat16 round_to<BFloat16>(float value) {
  if (is_nan(value)) return BFloat16{kNanBits16};
  const std::uint32_t bits = bits_to<std::uint32_t>(value);
  return BFloat16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <>
SAMEBITS_HD constexpr Float16 round_to<Float16>(float value) {
  if (is_nan(value)) return Float16{kNanBits16};
  const std::uint32_t bits = bits_to<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x47800000u) return Float16{static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Below the normal range the spacing is 2^-24: adding 0.5 puts that bit last in the significand.
    const float shifted = bits_to<float>(magnitude) + 0.5f;
    return Float16{static_cast<std::uint16_t>(sign | (bits_to<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return Float16{static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

template <class T>
SAMEBITS_HD constexpr T round_to(double value) {
  if constexpr (sizeof(T) == 8)
    return is_nan(value) ? static_cast<T>(canonical_nan<double>()) : static_cast<T>(value);
  else if constexpr (sizeof(T) == 4)
    return is_nan(value) ? static_cast<T>(canonical_nan<float>()) : static_cast<T>(value);
  else
    return round_to<T>(round_to_odd(value));
}

}  // namespace samebits::order
