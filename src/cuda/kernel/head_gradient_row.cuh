// What a row of the logits' gradient is made of: the P form, or in binary64 the gradient itself.
#pragma once

#include "core/matmul_problem.h"
#include "cuda/kernel/row_finish.cuh"
#include "cuda/launch/head_rows.h"
#include "order/p_form.h"

namespace samebits::cuda {

// A row under fma64.v1+row64.v1, which is unfused inside.
struct HeadRow64 {
  order::RowClass kind;
  order::GradientRow<order::Row64V1> columns;
  double target;  // the gradient of the target's column
};

// g, h, e.
template <class Real>
struct Upstreams {
  Real g, h, e;
};

template <class Row>
using GradientForm = std::conditional_t<sizeof(typename Row::Real) == 4, order::PRow, HeadRow64>;

// z of a position's target; `x` is its product.
template <class Real>
__device__ __forceinline__ Real target_z(const core::LinearLogpProblem& head, const HeadRows& list,
                                         std::int64_t position, Real x) {
  if (head.bias != nullptr)
    x = x + load_logit<Real>(static_cast<const char*>(head.bias), head.logp.dtype,
                             list.target[position] * head.bias_stride);
  return list.inverse_tau == nullptr ? x : x * static_cast<const Real*>(list.inverse_tau)[position];
}

// w of a row; `largest` is the largest |weight|. 0 where nothing counts.
__device__ __forceinline__ int counting_exponent(const order::PRow& row, float largest) {
  const bool counts = row.kind == order::RowClass::kFinite && order::is_finite(largest) && largest != 0.0f;
  return counts ? order::hidden_exponent(row, largest) : 0;
}

// An element of P, before it is rounded; `target`: the column is the target's.
__device__ __forceinline__ float p_value(const order::PRow& row, float z, bool target) {
  if (row.kind == order::RowClass::kNan) return order::canonical_nan<float>();
  if (row.kind == order::RowClass::kEmpty || target) return 0.0f;
  return order::p_column(row, z);
}
__device__ __forceinline__ double p_value(const HeadRow64& row, double z, bool target) {
  if (row.kind == order::RowClass::kNan) return order::canonical_nan<double>();
  if (row.kind == order::RowClass::kEmpty) return 0.0;
  return target ? row.target : order::gradient_column(row.columns, z);
}

}  // namespace samebits::cuda
