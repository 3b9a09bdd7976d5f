// e(d): the exponential of row.v1. CONTRACT section 1, step 3.
#pragma once

#include "order/number.h"

namespace samebits::order {

struct Exp32 {
  static constexpr float kLog2e = 0x1.715476p+0f;
  static constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kCut = -87.33654f;          // below it the result would leave the normal range
  // 2^r on [-1/2, 1/2] by Horner, constant term 1 (docs/exp.md says how they were rounded).
  static constexpr float kC1 = 0x1.62e42ap-1f;
  static constexpr float kC2 = 0x1.ebf9b8p-3f;
  static constexpr float kC3 = 0x1.c6b748p-5f;
  static constexpr float kC4 = 0x1.3ceb38p-7f;
  static constexpr float kC5 = 0x1.5b937ap-10f;
};

// exp(d) for kCut <= d <= 88, d no NaN.
SAMEBITS_HD constexpr float exp_of_number(float d) {
  const float t = fma(d, Exp32::kLog2e, Exp32::kRoundMagic);
  const float n = t - Exp32::kRoundMagic;
  const float r = fma(d, Exp32::kLog2e, -n);
  float p = fma(Exp32::kC5, r, Exp32::kC4);
  p = fma(p, r, Exp32::kC3);
  p = fma(p, r, Exp32::kC2);
  p = fma(p, r, Exp32::kC1);
  p = fma(p, r, 1.0f);
  // The low bits of t hold n; shifted into the exponent field they scale p by 2^n exactly.
  return bits_to<float>(bits_to<std::uint32_t>(p) + (bits_to<std::uint32_t>(t) << 23));
}

// The same; NaN for NaN.
SAMEBITS_HD constexpr float exp_core(float d) {
  return is_nan(d) ? canonical_nan<float>() : exp_of_number(d);
}

}  // namespace samebits::order
