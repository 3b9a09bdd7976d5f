#include "cpu/tc16_kernels.h"

#include <utility>

#include "cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tc16_kernels.cpp"
#include <hwy/foreach_target.h>

#include "cpu/hwy_ops.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kRows = 4;
#else
constexpr int kRows = 2;
#endif
static_assert(kRows <= kMaxTc16Rows);
constexpr int kGroup = order::Tc16::kGroup;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using DH = hn::Repartition<std::uint16_t, DF>;
using F = hn::Vec<DF>;
using I = hn::Vec<DI>;
using U = hn::Vec<DU>;
using H = hn::Vec<DH>;
constexpr DF df;
constexpr DI di;
constexpr DU du;
constexpr DH dh;
constexpr int kN = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kPanel = 2 * kN;

// Exponents are kept with this bias, so that 0 says "a zero, takes no part": sums with it stay below every other.
constexpr int kBias = 1000;
constexpr int kSumBias = 2 * kBias;
constexpr int kNotFinite = 6000;  // of an infinity or a NaN; above every sum of finite operands
// Sums above it: operands or an accumulator that are not finite, or results that may overflow.
constexpr int kLargest = kSumBias + 127;
// Where a product of exponent E is aligned to, as the exponent field of the power of two that it is multiplied by.
constexpr int kAligned = 127 + order::Tc16::kFractionBits;

// fp32 to integer, truncated, for values known to fit; what others give does not matter. Highway's own corrects them.
HWY_INLINE I Truncate(F value) {
#if HWY_TARGET == HWY_AVX3
  return I{_mm512_cvttps_epi32(value.raw)};
#elif HWY_TARGET == HWY_AVX2
  return I{_mm256_cvttps_epi32(value.raw)};
#else
  return hn::ConvertTo(di, value);
#endif
}

HWY_INLINE U AsU(I v) { return hn::BitCast(du, v); }
HWY_INLINE I AsI(U v) { return hn::BitCast(di, v); }

struct Unpacked {
  F significand;
  U exponent;
};

// `high`: the operand in the upper 16 bits of each lane, zeros below.
template <bool kFp16>
HWY_INLINE Unpacked Unpack(U high) {
  constexpr int kFraction = kFp16 ? 10 : 7, kWidth = 15 - kFraction;
  constexpr std::uint32_t kSpecial = (1u << kWidth) - 1;
  constexpr int kOffset = kBias - static_cast<int>(kSpecial / 2);
  const U sign = hn::And(high, hn::Set(du, 0x80000000u));
  const U magnitude = hn::Xor(high, sign);
  const U field = hn::ShiftRight<16 + kFraction>(magnitude);
  // The fraction at the top of fp32's own; below the smallest normal there is no hidden 1, so it is taken off.
  const U fraction = hn::And(hn::ShiftRight<kFp16 ? 3 : 0>(magnitude), hn::Set(du, 0x7fffffu));
  const U one = hn::Or(sign, hn::Set(du, 0x3f800000u));
  const auto is_subnormal = hn::Eq(field, hn::Zero(du));
  const F off = hn::BitCast(df, hn::IfThenElseZero(is_subnormal, one));
  const F finite = hn::Sub(hn::BitCast(df, hn::Or(one, fraction)), off);
  const U not_finite = hn::Or(hn::Or(sign, fraction), hn::Set(du, 0x7f800000u));
  const auto is_special = hn::Eq(field, hn::Set(du, kSpecial));
  U exponent = hn::Add(hn::Max(field, hn::Set(du, 1u)), hn::Set(du, kOffset));
  exponent = hn::IfThenElse(is_special, hn::Set(du, kNotFinite), exponent);
  exponent = hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(du)), exponent);
  return {hn::BitCast(df, hn::IfThenElse(is_special, not_finite, hn::BitCast(du, finite))), exponent};
}

template <bool kFp16>
void unpack_row(const std::uint16_t* HWY_RESTRICT source, std::int64_t count,
                float* HWY_RESTRICT significands, std::uint32_t* HWY_RESTRICT exponents) {
  const hn::Rebind<std::uint16_t, DU> narrow;
  for (std::int64_t k = 0; k < count; k += kN) {
    const U high = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(narrow, source + k)));
    const Unpacked operand = Unpack<kFp16>(high);
    hn::StoreU(operand.significand, df, significands + k);
    hn::StoreU(hn::Or(operand.exponent, hn::ShiftLeft<16>(operand.exponent)), du, exponents + k);
  }
}

template <bool kFp16>
void unpack_panel(const std::uint32_t* HWY_RESTRICT words, std::int64_t pairs,
                  float* HWY_RESTRICT significands, std::uint32_t* HWY_RESTRICT exponents) {
  const U upper = hn::Set(du, 0xffff0000u);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const U left = hn::LoadU(du, words), right = hn::LoadU(du, words + kN);
    const Unpacked left_even = Unpack<kFp16>(hn::ShiftLeft<16>(left));
    const Unpacked right_even = Unpack<kFp16>(hn::ShiftLeft<16>(right));
    const Unpacked left_odd = Unpack<kFp16>(hn::And(left, upper));
    const Unpacked right_odd = Unpack<kFp16>(hn::And(right, upper));
    hn::StoreU(left_even.significand, df, significands);
    hn::StoreU(right_even.significand, df, significands + kN);
    hn::StoreU(left_odd.significand, df, significands + 2 * kN);
    hn::StoreU(right_odd.significand, df, significands + 3 * kN);
    hn::StoreU(hn::Or(left_even.exponent, hn::ShiftLeft<16>(right_even.exponent)), du, exponents);
    hn::StoreU(hn::Or(left_odd.exponent, hn::ShiftLeft<16>(right_odd.exponent)), du, exponents + kN);
    words += kPanel;
    significands += 2 * kPanel;
    exponents += 2 * kN;
  }
}

// The exponent of an accumulator, with the bias of sums; 0 for a zero.
HWY_INLINE U AccExponent(U acc) {
  const U magnitude = hn::And(acc, hn::Set(du, 0x7fffffffu));
  const U field = hn::Max(hn::ShiftRight<23>(magnitude), hn::Set(du, 1u));
  return hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(du)), hn::Add(field, hn::Set(du, kSumBias - 127)));
}

// The accumulator as an integer with 25 fraction bits after its move by `distance` = E - its exponent.
HWY_INLINE I AlignAcc(U acc, U distance) {
  const U fraction = hn::And(acc, hn::Set(du, 0x7fffffu));
  const U field = hn::And(acc, hn::Set(du, 0x7f800000u));
  const U hidden = hn::IfThenZeroElse(hn::Eq(field, hn::Zero(du)), hn::Set(du, 0x800000u));
  const U wide = hn::ShiftLeft<order::Tc16::kFractionBits - 23>(hn::Or(fraction, hidden));
  const U kept = hn::Shr(wide, hn::Min(distance, hn::Set(du, 31u)));
  const I sign = hn::BroadcastSignBit(AsI(acc));
  return hn::Sub(hn::Xor(AsI(kept), sign), sign);
}

// Position of the highest bit, 0 for 0.
HWY_INLINE I HighestBit(U value) {
  // Half of the value with the bit below its highest cleared: no rounding can carry it to the next power of two.
  const U half = hn::ShiftRight<1>(value);
  const F spread = hn::ConvertTo(df, AsI(hn::AndNot(hn::ShiftRight<1>(half), half)));
  const U field = hn::ShiftRight<23>(hn::BitCast(du, hn::Add(spread, hn::Set(df, 0.5f))));
  return hn::Sub(AsI(field), hn::Set(di, 126));
}

// products + acc, both with 25 fraction bits at exponent E (biased): truncated to 24 bits, or to a multiple of 2^-149.
HWY_INLINE U Normalise(I products, I acc, U E) {
  const I sum = hn::Add(products, acc);
  // The sum can pass 2^31; then only its sign is wrong, which is the one of both addends.
  const I passed = hn::And(hn::Xor(products, sum), hn::Xor(acc, sum));
  const I sign = hn::BroadcastSignBit(hn::Xor(sum, passed));
  const U magnitude = AsU(hn::Sub(hn::Xor(sum, sign), sign));
  // The shift that puts the highest bit into bit 31, unless that of 2^-126 lies below it already.
  const I zeros = hn::Sub(hn::Set(di, 31), HighestBit(magnitude));
  const I lowest = hn::Sub(AsI(E), hn::Set(di, kSumBias - 132));
  const I shift = hn::Min(zeros, lowest);
  const I none = hn::Zero(di), eight = hn::Set(di, 8);
  const U up = AsU(hn::Max(hn::Sub(shift, eight), none)), down = AsU(hn::Max(hn::Sub(eight, shift), none));
  const U significand = hn::Shr(hn::Shl(magnitude, up), down);
  // The hidden 1, where there is one, adds the last 1 to the exponent field.
  const I field = hn::Sub(lowest, shift);
  I bits = hn::Add(AsI(significand), hn::ShiftLeft<23>(field));
  bits = hn::IfThenElse(hn::Gt(field, hn::Set(di, 253)), hn::Set(di, 0x7f800000), bits);
  bits = hn::Or(bits, hn::ShiftLeft<31>(sign));
  return hn::IfThenZeroElse(hn::Eq(significand, hn::Zero(du)), AsU(bits));
}

// What IEEE addition makes of products and acc where one of them is not finite; `finite` elsewhere.
HWY_INLINE U WithSpecials(F special, U acc, U finite) {
  const F sum = hn::Add(special, hn::BitCast(df, acc));
  const I bits = hn::BitCast(di, sum), inf = hn::Set(di, 0x7f800000);
  const I magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const I number = hn::IfThenElse(hn::Eq(magnitude, inf), bits, AsI(finite));
  return AsU(hn::IfThenElse(hn::Gt(magnitude, inf), hn::Set(di, order::kNanBits32), number));
}

template <int R>
void tile(std::int64_t groups, const float* HWY_RESTRICT a, const std::uint32_t* HWY_RESTRICT a_exponents,
          const float* HWY_RESTRICT b, const std::uint32_t* HWY_RESTRICT b_exponents, float* HWY_RESTRICT acc,
          std::int64_t acc_stride, bool first) {
  U state[R][2];
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < 2; ++v)
      state[r][v] = first ? hn::Zero(du) : hn::BitCast(du, hn::LoadU(df, acc + r * acc_stride + v * kN));
  }
  // The loops over k stay loops: unrolled, what both of them compute would be kept in memory by the first.
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto exponent = [&](H column, int r, int k) HWY_ATTR {
      return hn::Add(column, hn::BitCast(dh, hn::Set(du, a_exponents[r * kTc16Stride + k])));
    };
    H top[R];
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) top[r] = hn::Zero(dh);
    HWY_UNROLL(1)
    for (int k = 0; k < kGroup; ++k) {
      const H column = hn::BitCast(dh, hn::LoadU(du, b_exponents + k * kN));
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) top[r] = hn::Max(top[r], exponent(column, r, k));
    }

    U common[R][2], own[R][2];
    H base[R];  // of the alignment
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      const U both = hn::BitCast(du, top[r]);
      const U floor = hn::Set(du, kSumBias + order::Tc16::kLeastExponent);
      const U largest[2] = {hn::And(both, hn::Set(du, 0xffffu)), hn::ShiftRight<16>(both)};
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v) {
        own[r][v] = AccExponent(state[r][v]);
        common[r][v] = hn::Max(hn::Max(largest[v], floor), own[r][v]);
      }
      const U aligned = hn::Set(du, kAligned);
      base[r] = hn::BitCast(
          dh, hn::Or(hn::Sub(common[r][0], aligned), hn::ShiftLeft<16>(hn::Sub(common[r][1], aligned))));
    }

    I sum[R][2];
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = hn::Zero(di);
    HWY_UNROLL(1)
    for (int k = 0; k < kGroup; ++k) {
      const H column = hn::BitCast(dh, hn::LoadU(du, b_exponents + k * kN));
      const F b0 = hn::LoadU(df, b + k * kPanel), b1 = hn::LoadU(df, b + k * kPanel + kN);
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) {
        // 0 where the product lies below the last bit that is kept.
        const U field = hn::BitCast(du, hn::SaturatedSub(exponent(column, r, k), base[r]));
        const F scale0 = hn::BitCast(df, hn::ShiftLeft<23>(field));
        const F scale1 = hn::BitCast(df, hn::ShiftLeft<7>(hn::And(field, hn::Set(du, 0xffff0000u))));
        const F significand = hn::Set(df, a[r * kTc16Stride + k]);
        sum[r][0] = hn::Add(sum[r][0], Truncate(hn::Mul(hn::Mul(significand, b0), scale0)));
        sum[r][1] = hn::Add(sum[r][1], Truncate(hn::Mul(hn::Mul(significand, b1), scale1)));
      }
    }

    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      U next[2];
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v)
        next[v] = Normalise(sum[r][v], AlignAcc(state[r][v], hn::Sub(common[r][v], own[r][v])), common[r][v]);
      const U most = hn::Max(common[r][0], common[r][1]);
      if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Gt(AsI(most), hn::Set(di, kLargest))))) {
        for (int v = 0; v < 2; ++v) {
          F special = hn::Zero(df);
          for (int k = 0; k < kGroup; ++k)
            special = hn::Add(special, hn::Mul(hn::Set(df, a[r * kTc16Stride + k]),
                                               hn::LoadU(df, b + k * kPanel + v * kN)));
          next[v] = WithSpecials(special, state[r][v], next[v]);
        }
      }
      state[r][0] = next[0];
      state[r][1] = next[1];
    }
    a += kGroup;
    a_exponents += kGroup;
    b += kGroup * kPanel;
    b_exponents += kGroup * kN;
  }
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < 2; ++v) hn::StoreU(hn::BitCast(df, state[r][v]), df, acc + r * acc_stride + v * kN);
  }
}

Tc16Kernels make_kernels() {
  Tc16Kernels kernels;
  kernels.tile_rows = kRows;
  kernels.panel_columns = kPanel;
  [&]<int... R>(std::integer_sequence<int, R...>) {
    ((kernels.tile[R + 1] = tile<R + 1>), ...);
  }(std::make_integer_sequence<int, kRows>());
  kernels.unpack_row[0] = unpack_row<false>;
  kernels.unpack_row[1] = unpack_row<true>;
  kernels.unpack_panel[0] = unpack_panel<false>;
  kernels.unpack_panel[1] = unpack_panel<true>;
  return kernels;
}

}  // namespace

const Tc16Kernels* tc16_kernels() {
  static const Tc16Kernels kernels = make_kernels();
  return &kernels;
}

}  // namespace samebits::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samebits::cpu {

const Tc16Kernels* tc16_kernels(Isa isa) {
  switch (isa) {
#if HWY_TARGETS & HWY_AVX3
    case Isa::kAvx512: return N_AVX3::tc16_kernels();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Isa::kAvx2: return N_AVX2::tc16_kernels();
#endif
#if HWY_TARGETS & HWY_NEON
    case Isa::kNeon: return N_NEON::tc16_kernels();
#endif
#if HWY_TARGETS & HWY_EMU128
    case Isa::kScalar: return N_EMU128::tc16_kernels();
#endif
    default: return nullptr;
  }
}

}  // namespace samebits::cpu
#endif  // HWY_ONCE
