// The blocks of a row combined: M, S and U. CONTRACT section 1, steps 2 and 5. Included once per target.
#if defined(SAMEBITS_CPU_ROW_COMBINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_ROW_COMBINE_INL_H_
#undef SAMEBITS_CPU_ROW_COMBINE_INL_H_
#else
#define SAMEBITS_CPU_ROW_COMBINE_INL_H_
#endif

#include "cpu/row_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

// M of a row: NaN if any block is NaN.
template <class Row>
HWY_INLINE typename Row::Real row_max(const typename Row::Real* m, std::int64_t blocks) {
  using Real = typename Row::Real;
  const typename VectorOf<Row>::D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  auto max = hn::Set(d, -order::infinity<Real>());
  auto ordered = hn::Eq(max, max);
  std::int64_t b = 0;
  for (; b + lanes <= blocks; b += lanes) {
    const auto v = hn::LoadU(d, m + b);
    max = hn::Max(max, v);
    ordered = hn::And(ordered, hn::Eq(v, v));
  }
  Real result = hn::GetLane(hn::MaxOfLanes(d, max));
  bool any_nan = !hn::AllTrue(d, ordered);
  for (; b < blocks; ++b) {
    any_nan = any_nan || order::is_nan(m[b]);
    result = m[b] > result ? m[b] : result;
  }
  return any_nan ? order::canonical_nan<Real>() : result + Real(0);
}

inline order::RowStats<order::RowV1> combine_row_v1(const float* m, const float* s, const float* u,
                                                    std::int64_t blocks) {
  using Row = order::RowV1;
  order::RowStats<Row> stats{row_max<Row>(m, blocks), 0, 0};
  if (order::classify(stats.max) != order::RowClass::kFinite) return stats;
  // RN(s_b * w_b) * 2^40 is exact in binary64, and adding 2^52 rounds it to an integer.
  const D32 d;
  const hn::Half<decltype(d)> dh;
  const hn::Rebind<double, decltype(dh)> dd;
  const hn::RebindToUnsigned<decltype(dd)> du;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  const auto max = hn::Set(d, stats.max);
  auto sum = hn::Zero(du), entropy = hn::Zero(du);
  const auto fixed = [&](auto value) {
    const auto shifted = hn::Add(hn::Mul(value, hn::Set(dd, order::kFixed64Scale)), hn::Set(dd, 0x1p52));
    return hn::And(hn::BitCast(du, shifted), hn::Set(du, 0xfffffffffffffull));
  };
  std::int64_t b = 0;
  for (; b + lanes <= blocks; b += lanes) {
    const auto m_b = hn::LoadU(d, m + b);
    const auto s_b = hn::LoadU(d, s + b);
    const auto w = ExpOrZero<Row>(d, hn::Sub(m_b, max));
    const auto term = hn::Mul(s_b, w);
    sum = hn::Add(sum, fixed(hn::PromoteTo(dd, hn::LowerHalf(dh, term))));
    sum = hn::Add(sum, fixed(hn::PromoteTo(dd, hn::UpperHalf(dh, term))));
    if (u != nullptr) {
      const auto inside = FusedMulAdd(s_b, hn::Sub(max, m_b), hn::LoadU(d, u + b));
      const auto t = hn::IfThenElseZero(hn::Gt(w, hn::Zero(d)), hn::Mul(inside, w));
      entropy = hn::Add(entropy, fixed(hn::PromoteTo(dd, hn::LowerHalf(dh, t))));
      entropy = hn::Add(entropy, fixed(hn::PromoteTo(dd, hn::UpperHalf(dh, t))));
    }
  }
  stats.sum = hn::GetLane(hn::SumOfLanes(du, sum));
  stats.entropy_sum = hn::GetLane(hn::SumOfLanes(du, entropy));
  for (; b < blocks; ++b) {
    stats.sum += order::block_to_sum<Row>(m[b], s[b], stats.max);
    if (u != nullptr) stats.entropy_sum += order::block_to_entropy_sum<Row>(m[b], s[b], u[b], stats.max);
  }
  return stats;
}

inline order::RowStats<order::Row64V1> combine_row64_v1(const double* m, const double* s, const double* u,
                                                        std::int64_t blocks) {
  using Row = order::Row64V1;
  order::RowStats<Row> stats{row_max<Row>(m, blocks), 0, 0};
  if (order::classify(stats.max) != order::RowClass::kFinite) return stats;
  for (std::int64_t b = 0; b < blocks; ++b) {
    stats.sum += order::block_to_sum<Row>(m[b], s[b], stats.max);
    if (u != nullptr) stats.entropy_sum += order::block_to_entropy_sum<Row>(m[b], s[b], u[b], stats.max);
  }
  return stats;
}

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_COMBINE_INL_H_
