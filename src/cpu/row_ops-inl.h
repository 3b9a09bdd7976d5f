// Vector pieces of the row kernels: loads that widen, e(d), stores that round. Included once per target.
#if defined(SAMEBITS_CPU_ROW_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_ROW_OPS_INL_H_
#undef SAMEBITS_CPU_ROW_OPS_INL_H_
#else
#define SAMEBITS_CPU_ROW_OPS_INL_H_
#endif

#include <type_traits>

#include "cpu/hwy_ops.h"
#include "order/row.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<float, 16>;
using D64 = hn::CappedTag<double, 8>;
using V32 = hn::Vec<D32>;
using V64 = hn::Vec<D64>;

// Row.v1 in vectors of floats, row64.v1 in vectors of doubles.
template <class Row>
struct VectorOf;
template <>
struct VectorOf<order::RowV1> {
  using D = D32;
};
template <>
struct VectorOf<order::Row64V1> {
  using D = D64;
};

// Row::exp of kCount vectors in two halves, so that a kernel can start some vectors before it finishes others.
// Each step is taken for all vectors before the next: one vector's chain of dependent operations is long, and
// a processor sees only so far ahead. x is within the range of Row::exp; lanes out of range get anything.
template <int kCount, class D>
struct StartedExp {
  using V = hn::Vec<D>;
  static constexpr int kMantissaBits = sizeof(hn::TFromD<D>) == 4 ? 23 : 52;
  hn::Vec<hn::RebindToUnsigned<D>> scale[kCount];  // n, shifted to the exponent
  V r[kCount];

  HWY_INLINE void start(D d, const V* x) {
    const hn::RebindToUnsigned<D> du;
    using C = std::conditional_t<sizeof(hn::TFromD<D>) == 4, order::Exp32, order::Exp64>;
    const auto log2e = hn::Set(d, C::kLog2e);
    const auto magic = hn::Set(d, C::kRoundMagic);
    V t[kCount];
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i) t[i] = FusedMulAdd(x[i], log2e, magic);
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i) {
      scale[i] = hn::ShiftLeft<kMantissaBits>(hn::BitCast(du, t[i]));
      const auto n = hn::Sub(t[i], magic);
      if constexpr (sizeof(hn::TFromD<D>) == 4)
        r[i] = FusedMulSub(x[i], log2e, n);
      else
        r[i] = FusedNegMulAdd(n, hn::Set(d, C::kLn2Low), FusedNegMulAdd(n, hn::Set(d, C::kLn2High), x[i]));
    }
  }

  HWY_INLINE void finish(D d, V* out) const {
    const hn::RebindToUnsigned<D> du;
    V p[kCount];
    const auto horner = [&](auto coefficient) HWY_ATTR {
      HWY_UNROLL(16)
      for (int i = 0; i < kCount; ++i) p[i] = FusedMulAdd(p[i], r[i], hn::Set(d, coefficient));
    };
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
      using C = order::Exp32;
      HWY_UNROLL(16)
      for (int i = 0; i < kCount; ++i) p[i] = hn::Set(d, C::kC5);
      horner(C::kC4);
      horner(C::kC3);
      horner(C::kC2);
      horner(C::kC1);
      horner(1.0f);
      HWY_UNROLL(16)
      for (int i = 0; i < kCount; ++i) out[i] = hn::BitCast(d, hn::Add(hn::BitCast(du, p[i]), scale[i]));
    } else {
      using C = order::Exp64;
      HWY_UNROLL(16)
      for (int i = 0; i < kCount; ++i) p[i] = hn::Set(d, C::coefficient(0));
      for (int k = 1; k < C::kTerms; ++k) horner(C::coefficient(k));
      HWY_UNROLL(16)
      for (int i = 0; i < kCount; ++i) {
        const auto h = hn::Add(hn::Set(d, 1.0), r[i]);
        const auto l = hn::Sub(r[i], hn::Sub(h, hn::Set(d, 1.0)));
        const auto value = hn::Add(h, FusedMulAdd(hn::Mul(r[i], r[i]), p[i], l));
        out[i] = hn::BitCast(d, hn::Add(hn::BitCast(du, value), scale[i]));
      }
    }
  }
};

// Row::exp of kCount vectors at once.
template <int kCount, class D, class V = hn::Vec<D>>
HWY_INLINE void ExpCore(D d, const V* x, V* out) {
  StartedExp<kCount, D> exp;
  exp.start(d, x);
  exp.finish(d, out);
}

// e0.
template <class Row, class D, class V>
HWY_INLINE V ExpOrZero(D d, V x) {
  V value;
  ExpCore<1>(d, &x, &value);
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, Row::kCut)), value);
}

// Lanes in which a or b is NaN. AVX-512 asks about both in one comparison.
template <class D, class V>
HWY_INLINE hn::Mask<D> EitherIsNan(D d, V a, V b) {
  (void)d;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return hn::Mask<D>{_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q)};
  else
    return hn::Mask<D>{_mm512_cmp_pd_mask(a.raw, b.raw, _CMP_UNORD_Q)};
#else
  // Not Ne: that is an ordered comparison on x86, false for NaN.
  return hn::Not(hn::And(hn::Eq(a, a), hn::Eq(b, b)));
#endif
}

// max(bound, x), and NaN where x is NaN.
template <class V>
HWY_INLINE V AtLeast(V bound, V x) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Max(bound, x);  // if one is NaN, x86 takes the second operand
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}

// The largest or smallest of a vector of 16-bit integers.
enum class Better { kLarger, kSmaller };

template <Better kBetter, class V>
HWY_INLINE V BetterOf(V a, V b) {
  if constexpr (kBetter == Better::kLarger)
    return hn::Max(a, b);
  else
    return hn::Min(a, b);
}

template <Better kBetter, class D16>
HWY_INLINE std::int16_t BestOfShorts(D16 d, hn::Vec<D16> v) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  // x86 has an instruction for the smallest of eight unsigned integers. Highway's MinOfLanes uses it too, but then
  // spends two more to broadcast the result.
  if constexpr (hn::MaxLanes(d) > 8) {
    const hn::Half<D16> half;
    return BestOfShorts<kBetter>(half, BetterOf<kBetter>(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    constexpr int kFlip = kBetter == Better::kLarger ? 0x7fff : -0x8000;
    const auto order = hn::Xor(v, hn::Set(d, kFlip));
    return static_cast<std::int16_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(order.raw)) ^ kFlip);
  }
#else
  return hn::GetLane(kBetter == Better::kLarger ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
#endif
}

template <class D, class V>
HWY_INLINE V CanonicalNan(D d, V value) {
  return hn::IfThenElse(hn::Eq(value, value), value, hn::Set(d, order::canonical_nan<hn::TFromD<D>>()));
}

// RN to bf16, left in the upper half of each lane; the lower half holds rubbish. NaN becomes 0x7fff.
template <bool kMayBeNan>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D32>> RoundToBFloat16(D32 d, V32 value) {
  const hn::RebindToUnsigned<D32> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
  if constexpr (!kMayBeNan) return rounded;
  return hn::BitCast(du, hn::IfThenElse(hn::Eq(value, value), hn::BitCast(d, rounded),
                                        hn::BitCast(d, hn::Set(du, 0x7fff0000u))));
}

// How the logits of one type come into the vectors of a row. A step is kStep columns, loaded as kVectors
// vectors; `kSplit` says that vectors alternate between even and odd columns instead of holding neighbours.
template <class Row, class In>
struct Columns {
  using D = typename VectorOf<Row>::D;
  using V = hn::Vec<D>;
  using DF = hn::Rebind<float, D>;  // as many floats
  static constexpr bool kSplit = false;
  static constexpr int kVectors = 1;
  static constexpr int kStep = static_cast<int>(hn::MaxLanes(D()));

  HWY_INLINE static void load(D d, const In* x, V* out) {
    if constexpr (sizeof(In) == sizeof(typename Row::Real)) {
      out[0] = hn::LoadU(d, x);
    } else if constexpr (sizeof(typename Row::Real) == 8) {
      out[0] = hn::PromoteTo(d, load_float(x));
    } else {
      out[0] = load_float(x);
    }
  }

  template <bool kMayBeNan>
  HWY_INLINE static void store(D d, const V* value, In* x) {
    if constexpr (sizeof(In) == sizeof(typename Row::Real)) {
      hn::StoreU(kMayBeNan ? CanonicalNan(d, value[0]) : value[0], d, x);
    } else if constexpr (sizeof(In) == 4) {
      const DF df;
      const auto rounded = hn::DemoteTo(df, value[0]);
      hn::StoreU(kMayBeNan ? CanonicalNan(df, rounded) : rounded, df, x);
    } else if constexpr (sizeof(typename Row::Real) == 8) {
      store_rounded(d, value[0], x);
    } else {
      store_half(d, value[0], x);
    }
  }

 private:
  HWY_INLINE static hn::Vec<DF> load_float(const In* x) {
    const DF d;
    if constexpr (sizeof(In) == 4) {
      return hn::LoadU(d, x);
    } else if constexpr (std::is_same_v<In, order::Float16>) {
      const hn::Rebind<hwy::float16_t, D> dh;
      return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(x)));
    } else {
      const hn::RebindToUnsigned<DF> du;
      const hn::Rebind<std::uint16_t, D> dh;
      const auto bits = hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(x));
      return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
    }
  }
  HWY_INLINE static void store_half(D d, V value, order::Float16* x) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, value), dh, reinterpret_cast<hwy::float16_t*>(x));
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Eq(value, value)))) store_rounded(d, value, x);
  }
  HWY_INLINE static void store_rounded(D d, V value, In* x) {
    HWY_ALIGN typename Row::Real wide[kStep];
    hn::Store(value, d, wide);
    round_step(wide, x);
  }
  // Not inlined: a kernel has many steps, and compilers take long over them.
  HWY_NOINLINE static void round_step(const typename Row::Real* wide, In* x) {
    for (int i = 0; i < kStep; ++i) x[i] = order::round_to<In>(wide[i]);
  }
};

// bf16 in fp32 vectors: a 32-bit word holds an even column below and an odd one above; one shift or one mask
// widens it in place, so nothing is ever moved across lanes.
template <>
struct Columns<order::RowV1, order::BFloat16> {
  using D = D32;
  using V = V32;
  static constexpr bool kSplit = true;
  static constexpr int kVectors = 2;
  static constexpr int kStep = 2 * static_cast<int>(hn::MaxLanes(D()));

  HWY_INLINE static void load(D d, const order::BFloat16* x, V* out) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, D> dh;
    const auto words = hn::BitCast(du, hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(x)));
    out[0] = hn::BitCast(d, hn::ShiftLeft<16>(words));
    out[1] = hn::BitCast(d, hn::And(words, hn::Set(du, 0xffff0000u)));
  }

  template <bool kMayBeNan>
  HWY_INLINE static void store(D d, const V* value, order::BFloat16* x) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, D> dh;
    const auto even = hn::ShiftRight<16>(RoundToBFloat16<kMayBeNan>(d, value[0]));
    const auto odd = hn::And(RoundToBFloat16<kMayBeNan>(d, value[1]), hn::Set(du, 0xffff0000u));
    hn::StoreU(hn::BitCast(dh, hn::Or(even, odd)), dh, reinterpret_cast<std::uint16_t*>(x));
  }
};

// Logits padded with -inf up to a multiple of a block or a step: "a missing column counts as -inf".
template <class In>
HWY_INLINE In minus_infinity() {
  if constexpr (sizeof(In) == 2)
    return In{std::uint16_t(std::is_same_v<In, order::BFloat16> ? 0xff80 : 0xfc00)};
  else
    return -order::infinity<In>();
}

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_OPS_INL_H_
