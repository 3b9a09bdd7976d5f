// The tables of row kernels for every vector instruction set of this build.
#include "cpu/row_kernels.h"

#include "cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// Included for every target, the portable one too: Highway's include guards toggle from one to the next.
#include "cpu/row_combine-inl.h"

// Plain loops serve the portable target (row_kernels_scalar.cpp): quicker to compile, and no slower.
#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace samebits::cpu {
namespace HWY_NAMESPACE {

// In files of their own, named row_kernels_*.cpp.
void add_float32(RowKernels<order::RowV1>& kernels);
void add_float16(RowKernels<order::RowV1>& kernels);
void add_binary64(RowKernels<order::Row64V1>& kernels);

const RowKernels<order::RowV1>* row_table() {
  static const auto table = [] {
    RowKernels<order::RowV1> kernels;
    add_float32(kernels);
    add_float16(kernels);
    kernels.combine = combine_row_v1;
    return kernels;
  }();
  return &table;
}

const RowKernels<order::Row64V1>* row64_table() {
  static const auto table = [] {
    RowKernels<order::Row64V1> kernels;
    add_binary64(kernels);
    kernels.combine = combine_row64_v1;
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

const RowKernels<order::RowV1>* scalar_row_kernels();
const RowKernels<order::Row64V1>* scalar_row64_kernels();

const RowKernels<order::RowV1>* row_kernels(Isa isa) {
  switch (isa) {
#if HWY_TARGETS & HWY_AVX3
    case Isa::kAvx512: return N_AVX3::row_table();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Isa::kAvx2: return N_AVX2::row_table();
#endif
#if HWY_TARGETS & HWY_NEON
    case Isa::kNeon: return N_NEON::row_table();
#endif
    case Isa::kScalar: return scalar_row_kernels();
    default: return nullptr;
  }
}

const RowKernels<order::Row64V1>* row64_kernels(Isa isa) {
  switch (isa) {
#if HWY_TARGETS & HWY_AVX3
    case Isa::kAvx512: return N_AVX3::row64_table();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Isa::kAvx2: return N_AVX2::row64_table();
#endif
#if HWY_TARGETS & HWY_NEON
    case Isa::kNeon: return N_NEON::row64_table();
#endif
    case Isa::kScalar: return scalar_row64_kernels();
    default: return nullptr;
  }
}

}  // namespace samebits::cpu
#endif  // HWY_ONCE
