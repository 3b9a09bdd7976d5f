// Statistics of one vocabulary row and its gradient: everything of row.v1 and row64.v1 that is a formula.
// CONTRACT section 1. The loops over blocks belong to the backends.
#pragma once

#include "order/exp32.h"
#include "order/fixed_point.h"
#include "order/math64.h"
#include "order/number.h"

namespace samebits::order {

inline constexpr int kBlock = 128;  // columns of a block
inline constexpr int kLanes = 32;   // lane 8q + c holds the columns 8j + c with j mod 4 = q: column mod 32
inline constexpr std::int64_t kMaxVocab = std::int64_t{1} << 22;

constexpr std::int64_t block_count(std::int64_t vocab) { return (vocab + kBlock - 1) / kBlock; }

// row.v1: binary32 terms, 64-bit sums.
struct RowV1 {
  using Real = float;
  using Fixed = Fixed64;
  static constexpr const char* kName = "row.v1";
  static constexpr Real kCut = Exp32::kCut;
  SAMEBITS_HD static constexpr Real exp(Real d) { return exp_core(d); }
  SAMEBITS_HD static constexpr Fixed to_fixed(Real value) { return to_fixed64(value); }
  SAMEBITS_HD static constexpr double sum_to_double(Fixed sum) { return fixed64_to_double(sum); }
  static constexpr double kScaleDown = 0x1p-40;
};

// row64.v1: the same shape in binary64, 128-bit sums.
struct Row64V1 {
  using Real = double;
  using Fixed = Fixed128;
  static constexpr const char* kName = "row64.v1";
  static constexpr Real kCut = Exp64::kCut;
  SAMEBITS_HD static constexpr Real exp(Real d) { return exp64(d); }
  SAMEBITS_HD static constexpr Fixed to_fixed(Real value) { return to_fixed128(value); }
  SAMEBITS_HD static constexpr double sum_to_double(Fixed sum) { return fixed128_to_double(sum); }
  static constexpr double kScaleDown = 0x1p-96;
};

// es: inside sums, clamped, so that no term is below the normal range.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real exp_in_sum(typename Row::Real d) {
  return Row::exp(d < Row::kCut ? Row::kCut : d);
}

// e0: everywhere else, cut to zero.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real exp_or_zero(typename Row::Real d) {
  return d < Row::kCut ? typename Row::Real(0) : Row::exp(d);
}

// z: the logit times the reciprocal of the temperature, one rounding.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real inverse_temperature(double tau) {
  using Real = typename Row::Real;
  return Real(1) / static_cast<Real>(tau);
}

// The 32 lane sums of a block, combined (step 4).
template <class Real>
SAMEBITS_HD constexpr Real combine_lanes(const Real (&lane)[kLanes]) {
  Real a[8] = {};
  for (int c = 0; c < 8; ++c) a[c] = (lane[c] + lane[8 + c]) + (lane[16 + c] + lane[24 + c]);
  return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}

// What one block adds to S and U (step 5), given the maximum M of the row.
template <class Row>
SAMEBITS_HD constexpr typename Row::Fixed block_to_sum(typename Row::Real m_b, typename Row::Real s_b,
                                                       typename Row::Real row_max) {
  return Row::to_fixed(s_b * exp_or_zero<Row>(m_b - row_max));
}
template <class Row>
SAMEBITS_HD constexpr typename Row::Fixed block_to_entropy_sum(typename Row::Real m_b, typename Row::Real s_b,
                                                               typename Row::Real u_b,
                                                               typename Row::Real row_max) {
  const typename Row::Real weight = exp_or_zero<Row>(m_b - row_max);
  if (!(weight > 0)) return 0;
  return Row::to_fixed(fma(s_b, row_max - m_b, u_b) * weight);
}

// How a row ends (step 7).
enum class RowClass : std::uint8_t { kFinite, kNan, kEmpty };
template <class Real>
SAMEBITS_HD constexpr RowClass classify(Real row_max) {
  if (is_nan(row_max) || row_max == infinity<Real>()) return RowClass::kNan;
  return row_max == -infinity<Real>() ? RowClass::kEmpty : RowClass::kFinite;
}

// The statistics saved for backward. S and U are 0 and M is the canonical NaN or an infinity when not kFinite.
template <class Row>
struct RowStats {
  typename Row::Real max;
  typename Row::Fixed sum;
  typename Row::Fixed entropy_sum;
};

template <class Row>
struct RowResult {
  typename Row::Real logp, lse, entropy;
};

// Step 6, binary64 inside, one rounding to the output type.
template <class Row>
SAMEBITS_HD constexpr RowResult<Row> finish_row(const RowStats<Row>& stats, typename Row::Real z_target) {
  using Real = typename Row::Real;
  const Real nan = canonical_nan<Real>();
  switch (classify(stats.max)) {
    case RowClass::kNan: return {nan, nan, nan};
    case RowClass::kEmpty: return {nan, -infinity<Real>(), nan};
    case RowClass::kFinite: break;
  }
  const double max = static_cast<double>(stats.max);
  const double sum = Row::sum_to_double(stats.sum);
  const double log_sum = log64(sum * Row::kScaleDown);
  // +0 / S is +0, and adding it to log_sum, which is never -0, changes nothing: without U the division is left out.
  const double mean =
      stats.entropy_sum == 0 ? log_sum : log_sum + Row::sum_to_double(stats.entropy_sum) / sum;
  return {static_cast<Real>((static_cast<double>(z_target) - max) - log_sum),
          static_cast<Real>(max + log_sum), static_cast<Real>(mean)};
}

// Everything about a row's first-order gradient that does not depend on the column.
template <class Row>
struct GradientRow {
  using Real = typename Row::Real;
  Real max;            // M
  Real scale;          // q: probabilities are e0(z - M) * q
  Real slope;          // -e; 0 without an entropy gradient
  Real offset;         // k of columns that are not the target, apart from the slope
  Real target_offset;  // the same of the target column
  Real target_direct;  // RN(g * c')
  Real inverse_temperature;
  bool has_slope;
};

template <class Row>
SAMEBITS_HD constexpr GradientRow<Row> gradient_row(const RowStats<Row>& stats, typename Row::Real z_target,
                                                    typename Row::Real inverse_tau, typename Row::Real g,
                                                    typename Row::Real h, typename Row::Real e) {
  using Real = typename Row::Real;
  const double sum = Row::sum_to_double(stats.sum);
  const double total = sum * Row::kScaleDown;
  const double spread = e == Real(0) ? 0.0 : Row::sum_to_double(stats.entropy_sum) / sum;  // eta
  const double e64 = e, g64 = g, h64 = h;
  GradientRow<Row> row{};
  row.max = stats.max;
  row.scale = Real(1) / static_cast<Real>(total);
  row.slope = -e;
  row.has_slope = !(e == Real(0));
  row.offset = row.has_slope ? static_cast<Real>((h64 - g64) - e64 * spread) : static_cast<Real>(h64 - g64);
  row.target_offset = row.has_slope ? static_cast<Real>(h64 - e64 * spread) : h;
  const Real weight = exp_or_zero<Row>(z_target - stats.max);
  row.target_direct = g * static_cast<Real>(1.0 - static_cast<double>(weight) / total);
  row.inverse_temperature = inverse_tau;
  return row;
}

// p_i of a scaled logit.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real probability(typename Row::Real z, typename Row::Real row_max,
                                                     typename Row::Real scale) {
  return exp_or_zero<Row>(z - row_max) * scale;
}

// RN(dz_i * it) of a column that is not the target; the caller rounds to the input type.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real gradient_column(const GradientRow<Row>& row, typename Row::Real z) {
  using Real = typename Row::Real;
  const Real d = z - row.max;
  const Real p = exp_or_zero<Row>(d) * row.scale;
  if (p == Real(0)) return Real(0);
  const Real k = row.has_slope ? fma(row.slope, d, row.offset) : row.offset;
  return (k * p) * row.inverse_temperature;
}

// The same of the target's column.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real gradient_target(const GradientRow<Row>& row, typename Row::Real z) {
  using Real = typename Row::Real;
  const Real d = z - row.max;
  const Real p = exp_or_zero<Row>(d) * row.scale;
  if (p == Real(0)) return row.target_direct * row.inverse_temperature;
  const Real k = row.has_slope ? fma(row.slope, d, row.target_offset) : row.target_offset;
  return fma(k, p, row.target_direct) * row.inverse_temperature;
}

}  // namespace samebits::order
