// Block statistics of a row and their combination. CONTRACT section 1, steps 1 to 5. Included once per target.
#if defined(SAMEBITS_CPU_ROW_STATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_ROW_STATS_INL_H_
#undef SAMEBITS_CPU_ROW_STATS_INL_H_
#else
#define SAMEBITS_CPU_ROW_STATS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "cpu/row_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

// Blocks are handled in groups, so that the tree over 32 lanes is computed for several blocks side by side; and
// the maximum of a block is found two blocks ahead, so that no sum waits for it and memory is read early.
inline constexpr int kGroup = 16;
inline constexpr int kAhead = 2;

template <class Row, class In>
struct BlockKernel {
  using Real = typename Row::Real;
  using C = Columns<Row, In>;
  using D = typename C::D;
  using V = typename C::V;
  static constexpr int kN = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kSteps = order::kBlock / C::kStep;         // loads of a block
  static constexpr int kAccumulators = order::kLanes / kN;        // vectors that hold the 32 lanes
  static constexpr int kStepsPerTurn = order::kLanes / C::kStep;  // loads that fill the 32 lanes once
  static constexpr int kTurns = kSteps / kStepsPerTurn;           // terms of a lane: 4
  // Vectors whose exponentials are computed side by side, whole turns of them.
  static constexpr int kTurnsAtOnce = kAccumulators >= 4 ? 1 : 4 / kAccumulators;
  static constexpr int kAtOnce = kTurnsAtOnce * kAccumulators;

  // The maximum of a block, NaN if it holds one.
  HWY_INLINE static Real block_max(const In* x) {
    constexpr int kPair = C::kVectors == 1 ? 2 : 1;  // loads that bring two vectors
    const D d;
    V v[2], max[2];
    auto nan = hn::FirstN(d, 0);
    HWY_UNROLL(8)
    for (int step = 0; step < kSteps; step += kPair) {
      C::load(d, x + step * C::kStep, v);
      if constexpr (kPair == 2) C::load(d, x + (step + 1) * C::kStep, v + 1);
      nan = hn::Or(nan, EitherIsNan(d, v[0], v[1]));
      for (int k = 0; k < 2; ++k) max[k] = step == 0 ? v[k] : hn::Max(max[k], v[k]);
    }
    if (HWY_UNLIKELY(!hn::AllFalse(d, nan))) return order::canonical_nan<Real>();
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(max[0], max[1])));
  }

  // The 32 lane sums of a block (and those of -d * es), stored as place_of says.
  template <bool kScaled, bool kEntropy>
  HWY_INLINE static void block_lanes(const In* x, Real inverse_tau, Real m_b, Real* sums, Real* entropies) {
    const D d;
    const V m = hn::Set(d, m_b);
    const V cut = hn::Set(d, Row::kCut);
    const V it = hn::Set(d, inverse_tau);
    V s[kAccumulators], u[kAccumulators];
    for (int a = 0; a < kAccumulators; ++a) s[a] = u[a] = hn::Zero(d);
    HWY_UNROLL(4)
    for (int turn = 0; turn < kTurns; turn += kTurnsAtOnce) {
      V delta[kAtOnce], e[kAtOnce];
      HWY_UNROLL(16)
      for (int step = 0; step < kAtOnce / C::kVectors; ++step) {
        V* to = delta + step * C::kVectors;
        C::load(d, x + (turn * kStepsPerTurn + step) * C::kStep, to);
        for (int k = 0; k < C::kVectors; ++k) {
          const V z = kScaled ? hn::Mul(to[k], it) : to[k];
          to[k] = hn::Max(hn::Sub(z, m), cut);
        }
      }
      ExpCore<kAtOnce>(d, delta, e);
      HWY_UNROLL(16)
      for (int i = 0; i < kAtOnce; ++i) {
        const int a = i % kAccumulators;
        s[a] = hn::Add(s[a], e[i]);
        if constexpr (kEntropy) u[a] = FusedNegMulAdd(e[i], delta[i], u[a]);
      }
    }
    for (int a = 0; a < kAccumulators; ++a) {
      hn::Store(s[a], d, sums + place_of(a));
      if constexpr (kEntropy) hn::Store(u[a], d, entropies + place_of(a));
    }
  }

  // The tree over the 32 lanes (step 4) of `count` blocks; lanes stored as place_of says.
  HWY_INLINE static void combine(const Real* lanes, int count, Real* out) {
    if constexpr (sizeof(Real) == 8) {
      for (int b = 0; b < count; ++b) {
        Real lane[order::kLanes];
        std::memcpy(lane, lanes + b * order::kLanes, sizeof(lane));
        out[b] = order::combine_lanes(lane);
      }
    } else {
      const hn::FixedTag<float, 4> d;
      for (int b = 0; b < count; b += 4) {
        const float* block = lanes + b * order::kLanes;
        const auto p0 = eight_to_four(block), p1 = eight_to_four(block + order::kLanes);
        const auto p2 = eight_to_four(block + 2 * order::kLanes),
                   p3 = eight_to_four(block + 3 * order::kLanes);
        const auto low = hn::Add(hn::ConcatEven(d, p1, p0), hn::ConcatOdd(d, p1, p0));
        const auto high = hn::Add(hn::ConcatEven(d, p3, p2), hn::ConcatOdd(d, p3, p2));
        hn::StoreU(hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)), d, out + b);
      }
    }
  }

  // From the 32 lanes of a block to a0 + a1, a2 + a3, a4 + a5, a6 + a7.
  HWY_INLINE static hn::Vec<hn::FixedTag<float, 4>> eight_to_four(const float* lanes) {
    const hn::FixedTag<float, 4> d;
    // Four lanes of each q, at distance kQ; the other four lanes of the same q start at kOther.
    constexpr int kQ = C::kSplit ? 4 : 8, kOther = C::kSplit ? 16 : 4;
    const auto sum = [&](const float* x) {
      return hn::Add(hn::Add(hn::Load(d, x), hn::Load(d, x + kQ)),
                     hn::Add(hn::Load(d, x + 2 * kQ), hn::Load(d, x + 3 * kQ)));
    };
    const auto first = sum(lanes), second = sum(lanes + kOther);
    // Split: first holds the even lanes, second the odd ones. Else first holds a0 to a3, second a4 to a7.
    if constexpr (C::kSplit) return hn::Add(first, second);
    return hn::Add(hn::ConcatEven(d, second, first), hn::ConcatOdd(d, second, first));
  }

  // Where vector `a` of the accumulators goes: all even columns first where vectors alternate.
  static constexpr int place_of(int a) {
    return C::kSplit ? (a % 2) * (order::kLanes / 2) + (a / 2) * kN : a * kN;
  }

  template <bool kScaled, bool kEntropy>
  static void run(const In* x, std::int64_t columns, Real inverse_tau, Real* m, Real* s, Real* u) {
    HWY_ALIGN Real sums[kGroup * order::kLanes];
    HWY_ALIGN Real entropies[kEntropy ? kGroup * order::kLanes : 1];
    const std::int64_t whole = columns / order::kBlock;
    for (std::int64_t first = 0; first < whole; first += kGroup) {
      const int count = static_cast<int>(std::min<std::int64_t>(kGroup, whole - first));
      group<kScaled, kEntropy>(x + first * order::kBlock, count, inverse_tau, sums, entropies, m + first,
                               s + first, kEntropy ? u + first : nullptr);
    }
    const std::int64_t rest = columns - whole * order::kBlock;
    if (rest == 0) return;
    HWY_ALIGN In tail[order::kBlock];
    std::memcpy(tail, x + whole * order::kBlock, static_cast<std::size_t>(rest) * sizeof(In));
    std::fill(tail + rest, tail + order::kBlock, minus_infinity<In>());
    group<kScaled, kEntropy>(tail, 1, inverse_tau, sums, entropies, m + whole, s + whole,
                             kEntropy ? u + whole : nullptr);
  }

  template <bool kScaled, bool kEntropy>
  HWY_INLINE static void group(const In* x, int count, Real inverse_tau, Real* sums, Real* entropies, Real* m,
                               Real* s, Real* u) {
    const auto find_max = [&](int b) HWY_ATTR {
      // Scaling is monotone, so the maximum of the scaled logits is the scaled maximum; + 0 turns -0 into +0.
      const Real max = block_max(x + b * order::kBlock);
      m[b] = (kScaled ? max * inverse_tau : max) + Real(0);
    };
    for (int b = 0; b < std::min(count, kAhead); ++b) find_max(b);
    for (int b = 0; b < count; ++b) {
      if (b + kAhead < count) find_max(b + kAhead);
      block_lanes<kScaled, kEntropy>(x + b * order::kBlock, inverse_tau, m[b], sums + b * order::kLanes,
                                     kEntropy ? entropies + b * order::kLanes : nullptr);
    }
    HWY_ALIGN Real out[kGroup];
    combine(sums, count, out);
    for (int b = 0; b < count; ++b) s[b] = m[b] == -order::infinity<Real>() ? Real(0) : out[b];
    if constexpr (kEntropy) {
      combine(entropies, count, out);
      for (int b = 0; b < count; ++b) u[b] = m[b] == -order::infinity<Real>() ? Real(0) : out[b];
    }
  }

  static void entry(const void* x, std::int64_t columns, Real inverse_tau, Real* m, Real* s, Real* u) {
    const In* in = static_cast<const In*>(x);
    const bool scaled = inverse_tau != Real(1);
    if (u == nullptr)
      scaled ? run<true, false>(in, columns, inverse_tau, m, s, u)
             : run<false, false>(in, columns, inverse_tau, m, s, u);
    else
      scaled ? run<true, true>(in, columns, inverse_tau, m, s, u)
             : run<false, true>(in, columns, inverse_tau, m, s, u);
  }
};

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

#endif  // SAMEBITS_CPU_ROW_STATS_INL_H_
