#include "cpu/p_form_kernels.h"

#include <algorithm>
#include <cstring>

#include "cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/p_form_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// Included for every target, the portable one too: Highway's include guards toggle from one to the next.
#include "cpu/row_ops-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {
namespace {

struct PKernel {
  static constexpr int kVectors = 4;  // side by side: see ExpCore
  static constexpr int kStep = kVectors * static_cast<int>(hn::MaxLanes(D32()));

  // What multiplies k_i by 2^-a_t: 2^142 is no float, so large powers are two factors, the first of them exact.
  struct Scale {
    explicit Scale(const order::PRow& row) {
      const int up = std::min(-row.entropy_exponent, 127);
      first = static_cast<float>(order::power_of_2(up));
      second = static_cast<float>(order::power_of_2(-row.entropy_exponent - up));
    }
    float first, second;
  };

  template <bool kSlope>
  HWY_INLINE static void step(const order::PRow& row, const Scale& scale, float it, const float* x,
                              float* p) {
    const D32 d;
    V32 z[kVectors], delta[kVectors], e[kVectors];
    HWY_UNROLL(4)
    for (int i = 0; i < kVectors; ++i) {
      z[i] = hn::Mul(hn::LoadU(d, x + i * hn::Lanes(d)), hn::Set(d, it));
      delta[i] = hn::Sub(z[i], hn::Set(d, row.reference));
    }
    ExpCore<kVectors>(d, delta, e);
    HWY_UNROLL(4)
    for (int i = 0; i < kVectors; ++i) {
      V32 value = e[i];
      if constexpr (kSlope) {
        const V32 k =
            FusedMulAdd(hn::Set(d, row.slope), hn::Sub(z[i], hn::Set(d, row.max)), hn::Set(d, row.offset));
        value = hn::Mul(value, hn::Mul(hn::Mul(k, hn::Set(d, scale.first)), hn::Set(d, scale.second)));
      }
      value = hn::IfThenElseZero(hn::Ge(delta[i], hn::Set(d, order::RowV1::kCut)), value);
      hn::StoreU(value, d, p + i * hn::Lanes(d));
    }
  }

  template <bool kSlope>
  static void run(const order::PRow& row, float it, const float* x, float* p, std::int64_t columns) {
    const Scale scale(row);
    std::int64_t i = 0;
    for (; i + kStep <= columns; i += kStep) step<kSlope>(row, scale, it, x + i, p + i);
    if (i == columns) return;
    HWY_ALIGN float tail[kStep] = {};
    std::memcpy(tail, x + i, static_cast<std::size_t>(columns - i) * sizeof(float));
    step<kSlope>(row, scale, it, tail, tail);
    std::memcpy(p + i, tail, static_cast<std::size_t>(columns - i) * sizeof(float));
  }

  static void entry(const order::PRow& row, float it, const float* x, float* p, std::int64_t columns) {
    row.has_slope ? run<true>(row, it, x, p, columns) : run<false>(row, it, x, p, columns);
  }
};

template <class D, class Real>
void add_scaled(Real factor, const Real* x, Real* acc, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(FusedMulAdd(f, hn::LoadU(d, x + i), hn::LoadU(d, acc + i)), d, acc + i);
  for (; i < count; ++i) acc[i] = order::fma(factor, x[i], acc[i]);
}

}  // namespace

const PFormKernels* p_form_table() {
  static const PFormKernels table{PKernel::entry, add_scaled<D32, float>, add_scaled<D64, double>};
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();
#endif  // a vector target

#if HWY_ONCE
namespace samebits::cpu {
namespace {

// Plain C++, for CPUs without a vector target. The same order, one lane at a time.
void scalar_columns(const order::PRow& row, float it, const float* x, float* p, std::int64_t columns) {
  for (std::int64_t i = 0; i < columns; ++i) p[i] = order::p_column(row, x[i] * it);
}

template <class Real>
void scalar_add_scaled(Real factor, const Real* x, Real* acc, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) acc[i] = order::fma(factor, x[i], acc[i]);
}

}  // namespace

const PFormKernels* p_form_kernels(Isa isa) {
  static const PFormKernels scalar{scalar_columns, scalar_add_scaled<float>, scalar_add_scaled<double>};
  switch (isa) {
#if HWY_TARGETS & HWY_AVX3
    case Isa::kAvx512: return N_AVX3::p_form_table();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Isa::kAvx2: return N_AVX2::p_form_table();
#endif
#if HWY_TARGETS & HWY_NEON
    case Isa::kNeon: return N_NEON::p_form_table();
#endif
    case Isa::kScalar: return &scalar;
    default: return nullptr;
  }
}

}  // namespace samebits::cpu
#endif  // HWY_ONCE
