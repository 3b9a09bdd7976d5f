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
#include "cpu/row_stats-inl.h"

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
  static constexpr int kAccumulators = order::kLanes / kN;  // vectors that hold the 32 lanes

  // The 32 lane sums of a block, from +0.
  HWY_INLINE static void block_lanes(const Real* values, Real* lanes) {
    const D d;
    V sum[kAccumulators];
    HWY_UNROLL(8)
    for (int a = 0; a < kAccumulators; ++a) sum[a] = hn::Add(hn::Zero(d), hn::LoadU(d, values + a * kN));
    HWY_UNROLL(3)
    for (int turn = 1; turn < order::kBlock / order::kLanes; ++turn) HWY_UNROLL(8)
    for (int a = 0; a < kAccumulators; ++a)
      sum[a] = hn::Add(sum[a], hn::LoadU(d, values + turn * order::kLanes + a * kN));
    HWY_UNROLL(8)
    for (int a = 0; a < kAccumulators; ++a) hn::Store(sum[a], d, lanes + a * kN);
  }

  // kGroup blocks at a time are one subtree; missing blocks are +0.
  static Real entry(const Real* values, std::int64_t columns) {
    HWY_ALIGN Real lanes[kGroup * order::kLanes];
    order::TreeSum<Real> tree;
    std::int64_t i = 0;
    for (; i + kGroup * order::kBlock <= columns; i += kGroup * order::kBlock)
      tree.add(group(values + i, kGroup, lanes));
    if (i < columns) tree.add(rest(values + i, columns - i, lanes));
    return tree.total();
  }

  HWY_INLINE static Real group(const Real* values, int blocks, Real* lanes) {
    for (int b = 0; b < blocks; ++b) block_lanes(values + b * order::kBlock, lanes + b * order::kLanes);
    return subtree(lanes, blocks);
  }

  static Real subtree(const Real* lanes, int blocks) {
    HWY_ALIGN Real sums[kGroup];
    BlockKernel<Row, Real>::combine(lanes, blocks, sums);
    std::fill(sums + blocks, sums + kGroup, Real(0));
    for (int width = kGroup / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    return sums[0];
  }

  // The last blocks, of which the last may lack columns.
  static Real rest(const Real* values, std::int64_t columns, Real* lanes) {
    const int whole = static_cast<int>(columns / order::kBlock);
    for (int b = 0; b < whole; ++b) block_lanes(values + b * order::kBlock, lanes + b * order::kLanes);
    const std::int64_t left = columns - whole * order::kBlock;
    if (left == 0) return subtree(lanes, whole);
    HWY_ALIGN Real tail[order::kBlock] = {};
    std::copy_n(values + whole * order::kBlock, left, tail);
    block_lanes(tail, lanes + whole * order::kLanes);
    return subtree(lanes, whole + 1);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_PRIMITIVES_INL_H_
