// Enters the kernels of one dtype into a table. Included once per target.
#if defined(SAMEBITS_CPU_ROW_DTYPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMEBITS_CPU_ROW_DTYPE_INL_H_
#undef SAMEBITS_CPU_ROW_DTYPE_INL_H_
#else
#define SAMEBITS_CPU_ROW_DTYPE_INL_H_
#endif

#include "cpu/row_gradient-inl.h"
#include "cpu/row_kernels.h"
#include "cpu/row_stats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

template <class Row, class In>
void add_dtype(RowKernels<Row>& kernels, DType dtype) {
  const int i = static_cast<int>(dtype);
  kernels.block_stats[i] = BlockKernel<Row, In>::entry;
  kernels.gradient[i] = GradientKernel<Row, In>::entry;
}

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();

#endif  // SAMEBITS_CPU_ROW_DTYPE_INL_H_
