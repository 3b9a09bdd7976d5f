// The inner loops of probability and row_sum, one set per instruction set.
#pragma once

#include <samebits/dtype.h>

#include "cpu/row_kernels.h"

namespace samebits::cpu {

template <class Row>
struct RowPrimitiveKernels {
  using Real = typename Row::Real;

  // e0(z - max) * scale of `columns` logits, which may start anywhere in the row.
  using Probability = void (*)(const void* x, std::int64_t columns, Real inverse_tau, Real max, Real scale,
                               Real* probabilities);

  // The sum of `columns` values that start at the leftmost leaf of a subtree. A NaN is any NaN.
  using Sum = Real (*)(const Real* values, std::int64_t columns);

  Probability probability[4] = {};  // by DType: kFloat32, kFloat64 (row64.v1 only), kFloat16, kBFloat16
  Sum sum = nullptr;
};

// Null when this build does not have the instruction set.
template <class Row>
const RowPrimitiveKernels<Row>* row_primitive_kernels(Isa isa);

}  // namespace samebits::cpu
