// The P form: what the fused gradient of a linear log-probability computes per row and per element, apart from the
// products. CONTRACT section 4, "Backward".
#pragma once

#include "order/dot.h"
#include "order/row.h"

namespace samebits::order {

inline constexpr int kSlices = 8;  // canonical slices of the vocabulary, for grad_hidden
inline constexpr std::int64_t kOccurrences =
    1024;                                       // rows of one chain of a sum over tokens (embedding, bias)
inline constexpr int kHiddenBits = 60;          // N counts 2^-60 of the largest value a row can have
inline constexpr float kTargetReach = 60.0f;    // bf16: r_t is z_t while M - z_t is at most this
inline constexpr double kShift16 = 10.0;        // fp16: r_t is this far below lse
inline constexpr float kEntropyReach = 128.0f;  // of |z - M| where E counts

SAMEBITS_HD constexpr std::int64_t slice_columns(std::int64_t vocab) {
  return kBlock / kSlices * block_count(vocab);
}

// 2^n for -1022 <= n <= 1023.
SAMEBITS_HD constexpr double power_of_2(int n) {
  return bits_to<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// floor(log2 |x|) of a normal binary64.
SAMEBITS_HD constexpr int exponent_of(double x) {
  return static_cast<int>((bits_to<std::uint64_t>(x) >> 52) & 0x7ff) - 1023;
}

// RN32(x * 2^n): one rounding, below the normal range too.
SAMEBITS_HD constexpr float scaled(float x, int n) {
  return static_cast<float>(static_cast<double>(x) * power_of_2(n));
}

// What the exponentials of a row are measured against.
enum class Reference : std::uint8_t { kMax, kTarget, kShifted };  // fma; tc16 with bf16; tc16 with fp16

SAMEBITS_HD constexpr float reference_of(Reference rule, const RowStats<RowV1>& stats, float z_target) {
  if (rule == Reference::kTarget) return stats.max - z_target <= kTargetReach ? z_target : stats.max;
  if (rule == Reference::kMax) return stats.max;
  const double log_sum = log64(fixed64_to_double(stats.sum) * RowV1::kScaleDown);
  return static_cast<float>((static_cast<double>(stats.max) + log_sum) - kShift16);
}

// A row without its target. `gradient` is that of section 1; the rest is step 1 to 3 of the P form.
struct PRow {
  RowClass kind;
  bool has_slope;
  float reference, max;  // r_t, M
  float slope, offset;   // of k_i
  int entropy_exponent;  // a_t, 0 without an entropy gradient
  float scale;           // s_t
  double weight;         // exp64(M - r_t) * (RN64(S) * 2^-40), of w_t
};

// `gradient` comes from gradient_row of a row whose M is finite.
SAMEBITS_HD constexpr PRow p_row(const RowStats<RowV1>& stats, const GradientRow<RowV1>& gradient,
                                 float reference, float g, float h, float e) {
  PRow row{};
  row.kind = RowClass::kFinite;
  row.has_slope = gradient.has_slope;
  row.reference = reference;
  row.max = stats.max;
  row.slope = gradient.slope;
  row.offset = gradient.offset;
  const double total = fixed64_to_double(stats.sum) * RowV1::kScaleDown;
  const double above = static_cast<double>(stats.max) - static_cast<double>(reference);
  const float f = static_cast<float>(exp64(-above) / total);
  if (row.has_slope) {
    const double spread = fixed64_to_double(stats.entropy_sum) / fixed64_to_double(stats.sum);
    const double slope = h - static_cast<double>(g), e64 = e;
    const float reach =
        static_cast<float>((slope < 0 ? -slope : slope) +
                           (e64 < 0 ? -e64 : e64) * (static_cast<double>(kEntropyReach) + spread));
    // A reach that is not finite leaves no gradient but NaN; 2^129 keeps the scaling defined.
    row.entropy_exponent = is_finite(reach) ? 1 + exponent_of(reach) : 129;
    row.scale = scaled(f, row.entropy_exponent) * gradient.inverse_temperature;
  } else {
    row.scale = (gradient.offset * f) * gradient.inverse_temperature;
  }
  row.weight = exp64(above) * total;
  return row;
}

// P of a column that is not the target, before it is rounded to the operand type.
SAMEBITS_HD constexpr float p_column(const PRow& row, float z) {
  const float e = exp_or_zero<RowV1>(z - row.reference);
  if (!row.has_slope || e == 0.0f) return e;
  return e * scaled(fma(row.slope, z - row.max, row.offset), -row.entropy_exponent);
}

// w_t; `largest` is the largest |weight|, finite and not 0.
SAMEBITS_HD constexpr int hidden_exponent(const PRow& row, float largest) {
  return kHiddenBits - exponent_of(row.weight * static_cast<double>(largest));
}

// j of grad_weight; `largest` is the largest finite |s_t|.
SAMEBITS_HD constexpr int weight_exponent(float largest) {
  return largest == 0.0f ? 0 : 1 + exponent_of(largest);
}

}  // namespace samebits::order
