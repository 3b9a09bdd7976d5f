// Kernels of probability and row_sum for every vector instruction set of this build.
#include "cpu/row_primitive_kernels.h"

#include "cpu/hwy_targets.h"
#include "order/row_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_primitive_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// Included for every target, the portable one too: Highway's include guards toggle from one to the next.
#include "cpu/row_primitives-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

template <class Row>
const RowPrimitiveKernels<Row>* primitive_table() {
  static const auto table = [] {
    RowPrimitiveKernels<Row> kernels;
    auto& probability = kernels.probability;
    probability[static_cast<int>(DType::kFloat32)] = ProbabilityKernel<Row, float>::entry;
    probability[static_cast<int>(DType::kFloat16)] = ProbabilityKernel<Row, order::Float16>::entry;
    probability[static_cast<int>(DType::kBFloat16)] = ProbabilityKernel<Row, order::BFloat16>::entry;
    if constexpr (sizeof(typename Row::Real) == 8)
      probability[static_cast<int>(DType::kFloat64)] = ProbabilityKernel<Row, double>::entry;
    kernels.sum = SumKernel<Row>::entry;
    return kernels;
  }();
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
template <class Row, class In>
void scalar_probability(const void* x, std::int64_t columns, typename Row::Real inverse_tau,
                        typename Row::Real max, typename Row::Real scale, typename Row::Real* p) {
  const In* in = static_cast<const In*>(x);
  for (std::int64_t i = 0; i < columns; ++i)
    p[i] = order::probability<Row>(order::widen<typename Row::Real>(in[i]) * inverse_tau, max, scale);
}

template <class Real>
Real scalar_sum(const Real* values, std::int64_t columns) {
  order::TreeSum<Real> tree;
  for (std::int64_t i = 0; i < columns; i += order::kBlock)
    tree.add(
        order::block_sum(values + i, static_cast<int>(std::min<std::int64_t>(order::kBlock, columns - i))));
  return tree.total();
}

template <class Row>
const RowPrimitiveKernels<Row>* scalar_primitive_table() {
  static const auto table = [] {
    RowPrimitiveKernels<Row> kernels;
    auto& probability = kernels.probability;
    probability[static_cast<int>(DType::kFloat32)] = scalar_probability<Row, float>;
    probability[static_cast<int>(DType::kFloat16)] = scalar_probability<Row, order::Float16>;
    probability[static_cast<int>(DType::kBFloat16)] = scalar_probability<Row, order::BFloat16>;
    if constexpr (sizeof(typename Row::Real) == 8)
      probability[static_cast<int>(DType::kFloat64)] = scalar_probability<Row, double>;
    kernels.sum = scalar_sum<typename Row::Real>;
    return kernels;
  }();
  return &table;
}

}  // namespace

template <class Row>
const RowPrimitiveKernels<Row>* row_primitive_kernels(Isa isa) {
  switch (isa) {
#if HWY_TARGETS & HWY_AVX3
    case Isa::kAvx512: return N_AVX3::primitive_table<Row>();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Isa::kAvx2: return N_AVX2::primitive_table<Row>();
#endif
#if HWY_TARGETS & HWY_NEON
    case Isa::kNeon: return N_NEON::primitive_table<Row>();
#endif
    case Isa::kScalar: return scalar_primitive_table<Row>();
    default: return nullptr;
  }
}
template const RowPrimitiveKernels<order::RowV1>* row_primitive_kernels<order::RowV1>(Isa);
template const RowPrimitiveKernels<order::Row64V1>* row_primitive_kernels<order::Row64V1>(Isa);

}  // namespace samebits::cpu
#endif  // HWY_ONCE
