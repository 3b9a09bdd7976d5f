// Row kernels of row64.v1, on logits of any type. A file of its own, so that the slow compilations run side by side.
#include "cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_kernels_binary64.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// Included for every target, the portable one too: Highway's include guards toggle from one to the next.
#include "cpu/row_dtype-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

void add_binary64(RowKernels<order::Row64V1>& kernels) {
  add_dtype<order::Row64V1, float>(kernels, DType::kFloat32);
  add_dtype<order::Row64V1, double>(kernels, DType::kFloat64);
  add_dtype<order::Row64V1, order::Float16>(kernels, DType::kFloat16);
  add_dtype<order::Row64V1, order::BFloat16>(kernels, DType::kBFloat16);
}

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();
#endif  // a vector target
