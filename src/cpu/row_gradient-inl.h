// The gradient of a row's columns. CONTRACT section 1, "First-order gradient". Included once per target.
#if defined(SAMEBITS_CPU_ROW_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_ROW_GRADIENT_INL_H_
#undef SAMEBITS_CPU_ROW_GRADIENT_INL_H_
#else
#define SAMEBITS_CPU_ROW_GRADIENT_INL_H_
#endif

#include <cstring>

#include "cpu/row_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

template <class Row, class In>
struct GradientKernel {
  using Real = typename Row::Real;
  using C = Columns<Row, In>;
  using D = typename C::D;
  using V = typename C::V;

  static constexpr int kLoadsAtOnce = 4 / C::kVectors;  // four vectors side by side: see ExpCore

  // kFinite: offset and slope are finite, so that no NaN can come up.
  template <bool kScaled, bool kSlope, bool kFinite, int kLoads>
  HWY_INLINE static void step(const order::GradientRow<Row>& row, const In* x, In* dx) {
    constexpr int kCount = kLoads * C::kVectors;
    const D d;
    const V it = hn::Set(d, row.inverse_temperature);
    V delta[kCount], e[kCount];
    HWY_UNROLL(4)
    for (int load = 0; load < kLoads; ++load) {
      V* to = delta + load * C::kVectors;
      C::load(d, x + load * C::kStep, to);
      for (int k = 0; k < C::kVectors; ++k)
        to[k] = hn::Sub(kScaled ? hn::Mul(to[k], it) : to[k], hn::Set(d, row.max));
    }
    ExpCore<kCount>(d, delta, e);
    HWY_UNROLL(4)
    for (int i = 0; i < kCount; ++i) {
      const V p = hn::Mul(e[i], hn::Set(d, row.scale));
      V factor = hn::Set(d, row.offset);
      if constexpr (kSlope) factor = FusedMulAdd(hn::Set(d, row.slope), delta[i], factor);
      V value = hn::Mul(factor, p);
      if constexpr (kScaled) value = hn::Mul(value, it);
      // p is zero where e0 is, and only there (the least normal e0 over at most 2^22 terms): +0, whatever the
      // factor.
      e[i] = hn::IfThenElseZero(hn::Ge(delta[i], hn::Set(d, Row::kCut)), value);
    }
    HWY_UNROLL(4)
    for (int load = 0; load < kLoads; ++load)
      C::template store<!kFinite>(d, e + load * C::kVectors, dx + load * C::kStep);
  }

  template <bool kScaled, bool kSlope, bool kFinite>
  static void run(const order::GradientRow<Row>& row, const In* x, In* dx, std::int64_t columns) {
    constexpr int kWide = kLoadsAtOnce * C::kStep;
    std::int64_t i = 0;
    for (; i + kWide <= columns; i += kWide) step<kScaled, kSlope, kFinite, kLoadsAtOnce>(row, x + i, dx + i);
    if (i == columns) return;
    HWY_ALIGN In tail[kWide] = {};
    const std::size_t bytes = static_cast<std::size_t>(columns - i) * sizeof(In);
    std::memcpy(tail, x + i, bytes);
    step<kScaled, kSlope, kFinite, kLoadsAtOnce>(row, tail, tail);
    std::memcpy(dx + i, tail, bytes);
  }

  template <bool kScaled, bool kSlope>
  static void pick(const order::GradientRow<Row>& row, const In* x, In* dx, std::int64_t columns) {
    const bool finite = order::is_finite(row.offset) && order::is_finite(row.slope);
    finite ? run<kScaled, kSlope, true>(row, x, dx, columns)
           : run<kScaled, kSlope, false>(row, x, dx, columns);
  }

  static void entry(const order::GradientRow<Row>& row, const void* x, void* dx, std::int64_t columns) {
    const In* in = static_cast<const In*>(x);
    In* out = static_cast<In*>(dx);
    if (row.inverse_temperature != Real(1))
      row.has_slope ? pick<true, true>(row, in, out, columns) : pick<true, false>(row, in, out, columns);
    else
      row.has_slope ? pick<false, true>(row, in, out, columns) : pick<false, false>(row, in, out, columns);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_GRADIENT_INL_H_
