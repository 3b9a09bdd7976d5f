// Probabilities of a row's columns, and the sum of a row. CONTRACT section 1, end. Included once per target.
#if defined(SAMEBITS_CPU_ROW_PRIMITIVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_ROW_PRIMITIVES_INL_H_
#undef SAMEBITS_CPU_ROW_PRIMITIVES_INL_H_
#else
#define SAMEBITS_CPU_ROW_PRIMITIVES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "cpu/row_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

template <class Row, class In>
struct ProbabilityKernel {
  using Real = typename Row::Real;
  using C = Columns<Row, In>;
  using D = typename C::D;
  using V = typename C::V;
  static constexpr int kLoads = 4 / C::kVectors;  // four vectors side by side: see ExpCore
  static constexpr int kStep = kLoads * C::kStep;

  template <bool kScaled>
  HWY_INLINE static void step(const In* x, Real inverse_tau, Real max, Real scale, Real* p) {
    const D d;
    V delta[4], e[4];
    HWY_UNROLL(4)
    for (int load = 0; load < kLoads; ++load) {
      V* to = delta + load * C::kVectors;
      C::load(d, x + load * C::kStep, to);
      for (int k = 0; k < C::kVectors; ++k)
        to[k] = hn::Sub(kScaled ? hn::Mul(to[k], hn::Set(d, inverse_tau)) : to[k], hn::Set(d, max));
    }
    ExpCore<4>(d, delta, e);
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i)
      e[i] = hn::IfThenElseZero(hn::Ge(delta[i], hn::Set(d, Row::kCut)), hn::Mul(e[i], hn::Set(d, scale)));
    HWY_UNROLL(4)
    for (int load = 0; load < kLoads; ++load) {
      if constexpr (C::kSplit)
        hn::StoreInterleaved2(e[2 * load], e[2 * load + 1], d, p + load * C::kStep);
      else
        hn::StoreU(e[load], d, p + load * C::kStep);
    }
  }

  template <bool kScaled>
  static void run(const In* x, std::int64_t columns, Real inverse_tau, Real max, Real scale, Real* p) {
    std::int64_t i = 0;
    for (; i + kStep <= columns; i += kStep) step<kScaled>(x + i, inverse_tau, max, scale, p + i);
    if (i == columns) return;
    HWY_ALIGN In tail[kStep] = {};
    HWY_ALIGN Real out[kStep];
    std::memcpy(tail, x + i, static_cast<std::size_t>(columns - i) * sizeof(In));
    step<kScaled>(tail, inverse_tau, max, scale, out);
    std::copy_n(out, columns - i, p + i);
  }

  static void entry(const void* x, std::int64_t columns, Real inverse_tau, Real max, Real scale, Real* p) {
    const In* in = static_cast<const In*>(x);
    inverse_tau != Real(1) ? run<true>(in, columns, inverse_tau, max, scale, p)
                           : run<false>(in, columns, inverse_tau, max, scale, p);
  }
};

template <class Row>
struct SumKernel {
  using Real = typename Row::Real;
  using D = typename VectorOf<Row>::D;
  using V = hn::Vec<D>;
  static constexpr int kN = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kVectors = order::kLanes / kN;  // vectors that hold the 32 lanes
  static constexpr int kColumns = 8;                   // lanes of a block after its four q are added
  static constexpr int kBlocks = 16;                   // blocks handled at once: one subtree

  // a0 to a7 of a block.
  HWY_INLINE static void block_columns(const Real* values, Real* a) {
    const D d;
    V s[kVectors];
    HWY_UNROLL(16)
    for (int k = 0; k < kVectors; ++k) s[k] = hn::Add(hn::Zero(d), hn::LoadU(d, values + k * kN));
    for (int i = order::kLanes; i < order::kBlock; i += order::kLanes) {
      HWY_UNROLL(16)
      for (int k = 0; k < kVectors; ++k) s[k] = hn::Add(s[k], hn::LoadU(d, values + i + k * kN));
    }
    if constexpr (kN > kColumns) {  // a vector holds two q
      const hn::Half<D> dh;
      const auto two = [&](V v) HWY_ATTR { return hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)); };
      hn::Store(hn::Add(two(s[0]), two(s[1])), dh, a);
    } else {
      constexpr int kStep = kColumns / kN;  // vectors of one q
      HWY_UNROLL(4)
      for (int k = 0; k < kStep; ++k)
        hn::Store(hn::Add(hn::Add(s[k], s[kStep + k]), hn::Add(s[2 * kStep + k], s[3 * kStep + k])), d,
                  a + k * kN);
    }
  }

  // Neighbours are added until one is left: a0 to a7 of each block to its sum, and those up the tree.
  HWY_INLINE static Real subtree(Real* a) {
    const D d;
    int count = kBlocks * kColumns;
    for (; count >= 2 * kN; count /= 2) {
      for (int i = 0; i < count; i += 2 * kN) {
        const V low = hn::Load(d, a + i), high = hn::Load(d, a + i + kN);
        hn::Store(hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)), d, a + i / 2);
      }
    }
    for (; count > 1; count /= 2)
      for (int i = 0; i < count; i += 2) a[i / 2] = a[i] + a[i + 1];
    return a[0];
  }

  static Real entry(const Real* values, std::int64_t columns) {
    HWY_ALIGN Real a[kBlocks * kColumns];
    order::TreeSum<Real> tree;
    std::int64_t i = 0;
    for (; i + kBlocks * order::kBlock <= columns; i += kBlocks * order::kBlock) {
      for (int b = 0; b < kBlocks; ++b) block_columns(values + i + b * order::kBlock, a + b * kColumns);
      tree.add(subtree(a));
    }
    if (i < columns) tree.add(last_subtree(values + i, columns - i, a));
    return tree.total();
  }

  // The same where columns and blocks are missing: they are +0.
  static Real last_subtree(const Real* values, std::int64_t columns, Real* a) {
    std::fill(a, a + kBlocks * kColumns, Real(0));
    const int whole = static_cast<int>(columns / order::kBlock);
    for (int b = 0; b < whole; ++b) block_columns(values + b * order::kBlock, a + b * kColumns);
    const std::int64_t left = columns - whole * order::kBlock;
    if (left > 0) {
      HWY_ALIGN Real tail[order::kBlock] = {};
      std::copy_n(values + whole * order::kBlock, left, tail);
      block_columns(tail, a + whole * kColumns);
    }
    return subtree(a);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_PRIMITIVES_INL_H_
