// What row.v1 and row64.v1 differ in: e, the fixed point, and the conversions of the sums. CONTRACT sections 0, 1.
//
// Written from the text, not from src/order: only the constants, exp64, log64 and the conversions between operand
// types are taken from there. A judge that shares its formulas with the accused judges nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "order/exp32.h"
#include "order/math64.h"

namespace samebits::ref {

using Sum64 = std::uint64_t;
using Sum128 = unsigned __int128;

template <class Real>
struct Numbers;

// row.v1
template <>
struct Numbers<float> {
  using Sum = Sum64;
  static constexpr float cut = -87.33654f;
  static float nan() { return order::canonical_nan<float>(); }

  // e(d), for d <= 88 and not below the cut.
  static float e(float d) {
    using C = order::Exp32;
    const float L = 0x1.715476p+0f;
    const float t = std::fma(d, L, 12582912.0f);
    const float n = t - 12582912.0f;
    const float r = std::fma(d, L, -n);
    const float p = std::fma(
        std::fma(std::fma(std::fma(std::fma(C::kC5, r, C::kC4), r, C::kC3), r, C::kC2), r, C::kC1), r, 1.0f);
    std::int32_t word;
    std::memcpy(&word, &p, sizeof word);
    word += static_cast<std::int32_t>(n) * (std::int32_t{1} << 23);
    float result;
    std::memcpy(&result, &word, sizeof result);
    return result;
  }

  static Sum to_sum(float value) {
    return static_cast<Sum>(std::llrint(static_cast<double>(value) * 0x1p40));
  }
  static double rn64(Sum sum) { return static_cast<double>(sum); }
  static constexpr double unit = 0x1p-40;
};

// row64.v1
template <>
struct Numbers<double> {
  using Sum = Sum128;
  static constexpr double cut = -708.39;
  static double nan() { return order::canonical_nan<double>(); }
  static double e(double d) { return order::exp64(d); }
  // value * 2^96 is exact and nearbyint rounds it to an integer, ties to even.
  static Sum to_sum(double value) { return static_cast<Sum>(std::nearbyint(value * 0x1p96)); }
  static double rn64(Sum sum) { return static_cast<double>(sum); }
  static constexpr double unit = 0x1p-96;
};

// The form of e outside sums: cut to +0.
template <class Real>
Real e0(Real d) {
  return d < Numbers<Real>::cut ? Real(0) : Numbers<Real>::e(d);
}

}  // namespace samebits::ref
