// The inner loops over one row, one set per instruction set; everything around them is shared.
#pragma once

#include <samebits/dtype.h>

#include "order/row.h"

namespace samebits::cpu {

// The instruction sets the kernels are built for, fastest first.
enum class Isa : std::uint8_t { kAvx512, kAvx2, kNeon, kScalar };

// Kernels of row.v1 (Row = order::RowV1) or row64.v1, indexed by the DType of the logits.
template <class Row>
struct RowKernels {
  using Real = typename Row::Real;

  // Statistics of the blocks of `columns` logits that start at a block boundary: m_b, s_b and, when u is not
  // null, u_b, ceil(columns / 128) of each. m_b is NaN when the block holds a NaN.
  using BlockStats = void (*)(const void* x, std::int64_t columns, Real inverse_tau, Real* m, Real* s,
                              Real* u);

  // M, S and, when u is not null, U of all blocks of a row.
  using Combine = order::RowStats<Row> (*)(const Real* m, const Real* s, const Real* u, std::int64_t blocks);

  // RN(dz * it), rounded to the type of x, of `columns` columns, none of them treated as the target.
  // x and dx may start anywhere in the row.
  using Gradient = void (*)(const order::GradientRow<Row>& row, const void* x, void* dx,
                            std::int64_t columns);

  BlockStats block_stats[4] = {};  // kFloat32, kFloat64 (row64.v1 only), kFloat16, kBFloat16
  Combine combine = nullptr;
  Gradient gradient[4] = {};
};

// Null tables when this build does not have the instruction set.
const RowKernels<order::RowV1>* row_kernels(Isa isa);
const RowKernels<order::Row64V1>* row64_kernels(Isa isa);

}  // namespace samebits::cpu
