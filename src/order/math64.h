// exp64 and log64: binary64, by fma and polynomials only. CONTRACT section 0; docs/exp.md has the errors.
#pragma once

#include "order/number.h"

namespace samebits::order {

struct Exp64 {
  static constexpr double kCut = -708.39;  // below it the result would leave the normal range
  static constexpr double kLog2e = 0x1.71547652b82fep0;
  static constexpr double kRoundMagic = 0x1.8p52;
  static constexpr double kLn2High = 0x1.62e42fefa39efp-1;
  static constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  static constexpr int kTerms = 10;
  // (exp(r) - 1 - r) / r^2, highest power first.
  SAMEBITS_HD static constexpr double coefficient(int i) {
    constexpr double kC[kTerms] = {0x1.ad92c7db8ea48p-26, 0x1.28adf7a188bf3p-22, 0x1.71df18fbc77b8p-19,
                                   0x1.a0199963c9d98p-16, 0x1.a01a012fec2f6p-13, 0x1.6c16c18475a18p-10,
                                   0x1.1111111126b37p-7,  0x1.55555555506cp-5,   0x1.55555555554fep-3,
                                   0x1.000000000000ap-1};
    return kC[i];
  }
};

// exp(d) for kCut <= d <= 709, within 0.8 ulp; NaN for NaN.
SAMEBITS_HD constexpr double exp64(double d) {
  if (is_nan(d)) return canonical_nan<double>();
  const double t = fma(d, Exp64::kLog2e, Exp64::kRoundMagic);
  const double n = t - Exp64::kRoundMagic;
  const double r = fma(-n, Exp64::kLn2Low, fma(-n, Exp64::kLn2High, d));
  double q = Exp64::coefficient(0);
  for (int i = 1; i < Exp64::kTerms; ++i) q = fma(q, r, Exp64::coefficient(i));
  // 1 + r in two words, so that the last addition is the only rounding that counts.
  const double h = 1.0 + r;
  const double l = r - (h - 1.0);
  const double p = h + fma(r * r, q, l);
  return bits_to<double>(bits_to<std::uint64_t>(p) + (bits_to<std::uint64_t>(t) << 52));
}

struct Log64 {
  static constexpr std::uint64_t kSqrtHalf =
      0x3fe6a09e667f3bcdull;                             // the significand is taken from [sqrt(1/2), sqrt(2))
  static constexpr double kLn2High = 0x1.62e42fefa4p-1;  // few enough bits for n * kLn2High to be exact
  static constexpr double kLn2Low = -0x1.8432a1b0e2634p-43;
  static constexpr int kTerms = 7;
  // log(1 + f) - f + f^2/2 over s, s = f / (2 + f), in s^2; highest power first.
  SAMEBITS_HD static constexpr double coefficient(int i) {
    constexpr double kC[kTerms] = {0x1.2b5c824ed90a7p-3, 0x1.39fe05dd7fbedp-3, 0x1.7462b76fd5eb4p-3,
                                   0x1.c71c62dc17c49p-3, 0x1.2492492df75b2p-2, 0x1.99999999952d9p-2,
                                   0x1.5555555555558p-1};
    return kC[i];
  }
};

// log(x) of a positive normal number, within 0.7 ulp; log64(1) is +0.
SAMEBITS_HD constexpr double log64(double x) {
  const std::uint64_t bits = bits_to<std::uint64_t>(x);
  const std::int64_t exponent = static_cast<std::int64_t>(bits - Log64::kSqrtHalf) >> 52;
  const double f = bits_to<double>(bits - (static_cast<std::uint64_t>(exponent) << 52)) - 1.0;
  const double n = static_cast<double>(exponent);
  const double s = f / (2.0 + f);
  const double z = s * s;
  double tail = Log64::coefficient(0);
  for (int i = 1; i < Log64::kTerms; ++i) tail = fma(tail, z, Log64::coefficient(i));
  const double half_f = 0.5 * f;
  const double square = half_f * f;  // f^2 / 2 and its rounding error
  const double square_low = fma(half_f, f, -square);
  const double u = f - square;
  const double u_low = (f - u) - square;
  const double whole = n * Log64::kLn2High;
  const double sum = whole + u;
  const double sum_low = u - (sum - whole);
  const double low = fma(s, fma(tail, z, square), fma(n, Log64::kLn2Low, (u_low - square_low) + sum_low));
  return sum + low;
}

}  // namespace samebits::order
