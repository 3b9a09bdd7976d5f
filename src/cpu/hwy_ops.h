// Vector operations that Highway lacks, or does not round the same on all targets. Included once per target,
// after hwy/foreach_target.h and inside no namespace.

// The include guard is toggled per target, as Highway's own headers do.
#if defined(SAMEBITS_CPU_HWY_OPS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_HWY_OPS_H_
#undef SAMEBITS_CPU_HWY_OPS_H_
#else
#define SAMEBITS_CPU_HWY_OPS_H_
#endif

#include <hwy/highway.h>

#include "order/config.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// fma(a, b, c) with one rounding. Highway's MulAdd rounds twice where the target has no fused instruction.
template <class V>
HWY_INLINE V FusedMulAdd(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128
  V result;
  for (std::size_t i = 0; i < sizeof(a.raw) / sizeof(a.raw[0]); ++i)
    result.raw[i] = order::fma(a.raw[i], b.raw[i], c.raw[i]);
  return result;
#else
  static_assert(HWY_NATIVE_FMA, "this target has no fused multiply-add");
  return hn::MulAdd(a, b, c);
#endif
}

// a * b - c and c - a * b; negating an operand is exact, so these round once as well.
template <class V>
HWY_INLINE V FusedMulSub(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128
  return FusedMulAdd(a, b, hn::Neg(c));
#else
  return hn::MulSub(a, b, c);
#endif
}
template <class V>
HWY_INLINE V FusedNegMulAdd(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128
  return FusedMulAdd(hn::Neg(a), b, c);
#else
  return hn::NegMulAdd(a, b, c);
#endif
}

}  // namespace samebits::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_HWY_OPS_H_
