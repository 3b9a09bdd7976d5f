// tc16.v1: one step of the tensor core's dot product. CONTRACT section 2; segments are those of dot.h.
#pragma once

#include "order/number.h"

namespace samebits::order {

struct Tc16 {
  static constexpr int kGroup = 16;             // products of one step
  static constexpr int kFractionBits = 25;      // kept of every addend when they are aligned
  static constexpr int kLeastExponent = -133;   // the common exponent is never below
  static constexpr int kSignificandBits = 24;   // of a result, truncated
  static constexpr int kLeastResultBit = -149;  // results are multiples of 2^-149
};

namespace detail {

// significand * 2^(exponent - fraction bits of the format), unnormalised: a subnormal has no hidden bit.
struct Parts {
  std::uint32_t significand;
  int exponent;
  bool negative;
};

template <int kFraction, int kExponentWidth>
SAMEBITS_HD constexpr Parts split(std::uint32_t bits) {
  constexpr std::uint32_t kMask = (1u << kExponentWidth) - 1u;
  const std::uint32_t field = (bits >> kFraction) & kMask;
  const std::uint32_t hidden = field != 0 ? 1u << kFraction : 0u;
  const int exponent = static_cast<int>(field != 0 ? field : 1u) - static_cast<int>(kMask / 2);
  return {(bits & ((1u << kFraction) - 1u)) | hidden, exponent,
          ((bits >> (kFraction + kExponentWidth)) & 1u) != 0};
}
SAMEBITS_HD constexpr Parts split(BFloat16 value) { return split<7, 8>(value.bits); }
SAMEBITS_HD constexpr Parts split(Float16 value) { return split<10, 5>(value.bits); }
SAMEBITS_HD constexpr Parts split(float value) { return split<23, 8>(bits_to<std::uint32_t>(value)); }

template <class T>
inline constexpr int kFractionOf = 0;
template <>
inline constexpr int kFractionOf<BFloat16> = 7;
template <>
inline constexpr int kFractionOf<Float16> = 10;

// Exact for exponents of normal binary64 numbers.
SAMEBITS_HD constexpr double power_of_two(int exponent) {
  return bits_to<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// `significand` with `fraction` bits behind the point, moved from `exponent` to `common`, truncated on magnitude.
SAMEBITS_HD constexpr std::int64_t align(std::uint32_t significand, int fraction, int exponent, bool negative,
                                         int common) {
  const int distance = common - exponent;
  const std::uint64_t wide = static_cast<std::uint64_t>(significand) << (Tc16::kFractionBits - fraction);
  // A zero takes no part in the choice of `common`, which may lie below its exponent.
  const auto kept = static_cast<std::int64_t>(wide != 0 && distance < 64 ? wide >> distance : 0u);
  return negative ? -kept : kept;
}

// sum * 2^(exponent - 25), truncated to 24 significant bits and to a multiple of 2^-149; zero is +0.
SAMEBITS_HD constexpr float normalise(std::int64_t sum, int exponent) {
  if (sum == 0) return 0.0f;
  const double exact =
      static_cast<double>(sum < 0 ? -sum : sum) * power_of_two(exponent - Tc16::kFractionBits);
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << (53 - Tc16::kSignificandBits)) - 1;
  double kept = bits_to<double>(bits_to<std::uint64_t>(exact) & ~kDropped);
  if (kept < 0x1p-126) {
    const auto steps = static_cast<std::int64_t>(kept * power_of_two(-Tc16::kLeastResultBit));
    kept = static_cast<double>(steps) * power_of_two(Tc16::kLeastResultBit);
  }
  const float magnitude = kept >= 0x1p128 ? kInf32 : static_cast<float>(kept);
  return sum < 0 && magnitude != 0.0f ? -magnitude : magnitude;
}

}  // namespace detail

// acc + a[0] b[0] + ... + a[15] b[15]. T is BFloat16 or Float16; acc is a result of a step or +0.
template <class T>
SAMEBITS_HD constexpr float tc16_step(float acc, const T* a, const T* b) {
  // Infinities and NaN by the rules of IEEE addition; a product of finite operands counts as 0 here.
  float special = is_finite(acc) ? 0.0f : acc;
  int common = Tc16::kLeastExponent;
  for (int k = 0; k < Tc16::kGroup; ++k) {
    const float x = to_float(a[k]), y = to_float(b[k]);
    if (!is_finite(x) || !is_finite(y)) special = special + x * y;
    const detail::Parts p = detail::split(a[k]), q = detail::split(b[k]);
    const int exponent = p.exponent + q.exponent;
    if (p.significand != 0 && q.significand != 0 && exponent > common) common = exponent;
  }
  if (special != 0.0f) return is_nan(special) ? canonical_nan<float>() : special;

  const detail::Parts start = detail::split(acc);
  if (start.significand != 0 && start.exponent > common) common = start.exponent;
  std::int64_t sum = detail::align(start.significand, 23, start.exponent, start.negative, common);
  for (int k = 0; k < Tc16::kGroup; ++k) {
    const detail::Parts p = detail::split(a[k]), q = detail::split(b[k]);
    sum += detail::align(p.significand * q.significand, 2 * detail::kFractionOf<T>, p.exponent + q.exponent,
                         p.negative != q.negative, common);
  }
  return detail::normalise(sum, common);
}

}  // namespace samebits::order
