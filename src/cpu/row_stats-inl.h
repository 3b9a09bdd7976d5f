// Block statistics of a row. CONTRACT section 1, steps 1 to 4. Included once per target.
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

// The maximum of a block is found this many blocks ahead, so that no sum waits for it and memory is read early.
inline constexpr int kAhead = 2;
// The tree over the 32 lanes is computed for this many blocks side by side.
inline constexpr int kTogether = 4;

template <class Row, class In>
struct BlockKernel {
  using Real = typename Row::Real;
  using C = Columns<Row, In>;
  using D = typename C::D;
  using V = typename C::V;
  static constexpr int kN = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kSteps = order::kBlock / C::kStep;   // loads of a block
  static constexpr int kAccumulators = order::kLanes / kN;  // vectors that hold the 32 lanes
  // Vectors whose exponentials are computed side by side, and how many times that makes a block.
  static constexpr int kAtOnce = std::max(4, kAccumulators);
  static constexpr int kChunks = order::kBlock / (kN * kAtOnce);
  // Whether a chunk is begun before the one in front of it is finished. That takes many registers.
  static constexpr bool kPipelined = HWY_TARGET == HWY_AVX3;
  // Whether the maximum of 16-bit logits is looked for among their bits, read as integers.
  static constexpr bool kIntegerMax = sizeof(In) == 2 && sizeof(Real) == 4;

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

  // m_b. Scaling is monotone, so the maximum of the scaled logits is the scaled maximum; + 0 turns -0 into +0.
  template <bool kScaled>
  HWY_INLINE static Real exact_max(const In* x, Real inverse_tau) {
    const Real max = block_max(x);
    return (kScaled ? max * inverse_tau : max) + Real(0);
  }

  // m_b of a block without NaN; of a block with one, anything but -inf. The bits of 16-bit logits, read as integers,
  // are in the order of the logits while these are not negative, and in the reverse order where they are. So the
  // maximum of a block is the one of integers, or their minimum if all are negative: twice the lanes to a vector,
  // and nothing to widen.
  template <bool kScaled>
  HWY_INLINE static Real quick_max(const In* x, Real inverse_tau) {
    if constexpr (kIntegerMax) {
      const auto largest = best_bits<Better::kLarger>(x);
      if (HWY_LIKELY(largest >= 0)) {
        const Real max = order::widen<Real>(In{static_cast<std::uint16_t>(largest)});
        return kScaled ? max * inverse_tau : max;  // never -0
      }
      const auto smallest = best_bits<Better::kSmaller>(x);
      const Real max = order::widen<Real>(In{static_cast<std::uint16_t>(smallest)});
      const Real m_b = (kScaled ? max * inverse_tau : max) + Real(0);
      if (m_b > -order::infinity<Real>()) return m_b;
    }
    return exact_max<kScaled>(x, inverse_tau);
  }

  template <Better kBetter>
  HWY_INLINE static std::int16_t best_bits(const In* x) {
    const hn::CappedTag<std::int16_t, 32> d;
    constexpr int kLoad = static_cast<int>(hn::MaxLanes(d));
    const auto* bits = reinterpret_cast<const std::int16_t*>(x);
    auto best = hn::LoadU(d, bits);
    HWY_UNROLL(16)
    for (int i = kLoad; i < order::kBlock; i += kLoad) best = BetterOf<kBetter>(best, hn::LoadU(d, bits + i));
    return BestOfShorts<kBetter>(d, best);
  }

  // Vectors of a block whose exponentials are begun, with what the entropy needs of them.
  template <bool kEntropy>
  struct Chunk {
    StartedExp<kAtOnce, D> exp;
    V delta[kEntropy ? kAtOnce : 1];
  };

  template <bool kScaled, bool kEntropy>
  HWY_INLINE static Chunk<kEntropy> start(const In* x, int chunk, Real inverse_tau, Real m_b) {
    const D d;
    const V m = hn::Set(d, m_b);
    const V cut = hn::Set(d, Row::kCut);
    const V it = hn::Set(d, inverse_tau);
    Chunk<kEntropy> started;
    V delta[kAtOnce];
    HWY_UNROLL(16)
    for (int i = 0; i < kAtOnce; i += C::kVectors) C::load(d, x + (chunk * kAtOnce + i) * kN, delta + i);
    HWY_UNROLL(16)
    for (int i = 0; i < kAtOnce; ++i) {
      const V z = kScaled ? hn::Mul(delta[i], it) : delta[i];
      delta[i] = AtLeast(cut, hn::Sub(z, m));
      if constexpr (kEntropy) started.delta[i] = delta[i];
    }
    started.exp.start(d, delta);
    return started;
  }

  // The tree over the 32 lanes (step 4) of `count` <= kTogether blocks, lanes stored as place_of says; 0 for a
  // block whose maximum is -inf. True if there is a NaN among the results.
  HWY_INLINE static bool combine(const Real* lanes, int count, const Real* m, Real* out) {
    HWY_ALIGN Real sums[kTogether];
    if constexpr (sizeof(Real) == 8) {
      for (int b = 0; b < count; ++b) {
        Real lane[order::kLanes];
        std::memcpy(lane, lanes + b * order::kLanes, sizeof(lane));
        sums[b] = order::combine_lanes(lane);
      }
    } else {
      static_assert(kTogether == 4);
      const hn::FixedTag<float, 4> d;
      const auto p0 = eight_to_four(lanes), p1 = eight_to_four(lanes + order::kLanes);
      const auto p2 = eight_to_four(lanes + 2 * order::kLanes), p3 = eight_to_four(lanes + 3 * order::kLanes);
      const auto low = hn::Add(hn::ConcatEven(d, p1, p0), hn::ConcatOdd(d, p1, p0));
      const auto high = hn::Add(hn::ConcatEven(d, p3, p2), hn::ConcatOdd(d, p3, p2));
      const auto sum = hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
      if (HWY_LIKELY(count == kTogether)) {
        const auto empty = hn::Eq(hn::LoadU(d, m), hn::Set(d, -order::infinity<float>()));
        const auto result = hn::IfThenZeroElse(empty, sum);
        hn::StoreU(result, d, out);
        return !hn::AllTrue(d, hn::Eq(result, result));
      }
      hn::Store(sum, d, sums);
    }
    bool any_nan = false;
    for (int b = 0; b < count; ++b) {
      out[b] = m[b] == -order::infinity<Real>() ? Real(0) : sums[b];
      any_nan = any_nan || order::is_nan(out[b]);
    }
    return any_nan;
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
    const std::int64_t whole = columns / order::kBlock;
    if (whole > 0) blocks<kScaled, kEntropy>(x, whole, inverse_tau, m, s, u);
    const std::int64_t rest = columns - whole * order::kBlock;
    if (rest == 0) return;
    HWY_ALIGN In tail[order::kBlock];
    std::memcpy(tail, x + whole * order::kBlock, static_cast<std::size_t>(rest) * sizeof(In));
    std::fill(tail + rest, tail + order::kBlock, minus_infinity<In>());
    blocks<kScaled, kEntropy>(tail, 1, inverse_tau, m + whole, s + whole, kEntropy ? u + whole : nullptr);
  }

  // Statistics of `count` >= 1 whole blocks.
  template <bool kScaled, bool kEntropy>
  HWY_INLINE static void blocks(const In* x, std::int64_t count, Real inverse_tau, Real* m, Real* s,
                                Real* u) {
    const D d;
    HWY_ALIGN Real sums[kTogether * order::kLanes];
    HWY_ALIGN Real entropies[kEntropy ? kTogether * order::kLanes : 1];
    for (std::int64_t b = 0; b < std::min<std::int64_t>(count, kAhead); ++b)
      m[b] = quick_max<kScaled>(x + b * order::kBlock, inverse_tau);
    Chunk<kEntropy> next = start<kScaled, kEntropy>(x, 0, inverse_tau, m[0]);
    for (std::int64_t first = 0; first < count; first += kTogether) {
      const int together = static_cast<int>(std::min<std::int64_t>(kTogether, count - first));
      for (int j = 0; j < together; ++j) {
        const std::int64_t b = first + j;
        if (b + kAhead < count)
          m[b + kAhead] = quick_max<kScaled>(x + (b + kAhead) * order::kBlock, inverse_tau);
        V sum[kAccumulators], entropy[kAccumulators];
        HWY_UNROLL(16)
        for (int chunk = 0; chunk < kChunks; ++chunk) {
          Chunk<kEntropy> now;
          if constexpr (kPipelined) {
            now = next;
            // Behind the last chunk of all comes one of its own block again, for nothing.
            const std::int64_t from = chunk + 1 < kChunks ? b : std::min(b + 1, count - 1);
            next = start<kScaled, kEntropy>(x + from * order::kBlock, (chunk + 1) % kChunks, inverse_tau,
                                            m[from]);
          } else {
            now = start<kScaled, kEntropy>(x + b * order::kBlock, chunk, inverse_tau, m[b]);
          }
          V e[kAtOnce];
          now.exp.finish(d, e);
          HWY_UNROLL(16)
          for (int i = 0; i < kAtOnce; ++i) {
            const int term = chunk * kAtOnce + i, a = term % kAccumulators;
            sum[a] = term < kAccumulators ? e[i] : hn::Add(sum[a], e[i]);
            if constexpr (kEntropy) {
              if (term < kAccumulators) entropy[a] = hn::Zero(d);
              entropy[a] = FusedNegMulAdd(e[i], now.delta[i], entropy[a]);
            }
          }
        }
        for (int a = 0; a < kAccumulators; ++a) {
          hn::Store(sum[a], d, sums + j * order::kLanes + place_of(a));
          if constexpr (kEntropy) hn::Store(entropy[a], d, entropies + j * order::kLanes + place_of(a));
        }
      }
      const bool any_nan = combine(sums, together, m + first, s + first);
      if constexpr (kEntropy) combine(entropies, together, m + first, u + first);
      // A NaN, or +inf less +inf, reaches the sum of its block.
      if (kIntegerMax && HWY_UNLIKELY(any_nan))
        for (std::int64_t b = first; b < first + together; ++b)
          m[b] = exact_max<kScaled>(x + b * order::kBlock, inverse_tau);
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

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_STATS_INL_H_
