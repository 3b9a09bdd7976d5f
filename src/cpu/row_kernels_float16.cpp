// Row kernels of row.v1 on fp16 and bf16 logits. A file of its own, so that the slow compilations run side by side.
#include "cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_kernels_float16.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// Included for every target, the portable one too: Highway's include guards toggle from one to the next.
#include "cpu/row_dtype-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

void add_float16(RowKernels<order::RowV1>& kernels) {
  add_dtype<order::RowV1, order::Float16>(kernels, DType::kFloat16);
  add_dtype<order::RowV1, order::BFloat16>(kernels, DType::kBFloat16);
}

}  // namespace HWY_NAMESPACE
}  // namespace samebits::cpu
HWY_AFTER_NAMESPACE();
#endif  // a vector target
