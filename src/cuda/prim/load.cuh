// Logits in global memory as a row computes with them.
#pragma once

#include <samebits/dtype.h>

#include "core/logp_problem.h"
#include "order/row.h"

namespace samebits::cuda {

// Where a row of logits, of a gradient or of values starts.
template <class Void>
__device__ __forceinline__ auto row_bytes(const core::RowArray<Void>& array, std::int64_t row) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  return static_cast<Byte*>(array.data) + array.index.offset(row) * dtype_size(array.dtype);
}

template <class Real>
__device__ __forceinline__ Real load_logit(const char* row, DType dtype, std::int64_t column) {
  switch (dtype) {
    case DType::kFloat32: return order::widen<Real>(reinterpret_cast<const float*>(row)[column]);
    case DType::kFloat16: return order::widen<Real>(reinterpret_cast<const order::Float16*>(row)[column]);
    case DType::kBFloat16: return order::widen<Real>(reinterpret_cast<const order::BFloat16*>(row)[column]);
    default:
      if constexpr (sizeof(Real) == 8) return reinterpret_cast<const double*>(row)[column];
      return Real(0);  // float64 logits are computed in binary64
  }
}

// `count` logits `step` columns apart; those at or beyond `end` are `missing`.
template <int count, int step, class Real>
__device__ __forceinline__ void load_logits(Real (&x)[count], const char* row, DType dtype,
                                            std::int64_t first, std::int64_t end, Real missing) {
  const auto load = [&](auto element) {
    const auto* from = reinterpret_cast<const decltype(element)*>(row);
#pragma unroll
    for (int i = 0; i < count; ++i)
      x[i] = first + i * step < end ? order::widen<Real>(from[first + i * step]) : missing;
  };
  switch (dtype) {
    case DType::kFloat32: return load(float{});
    case DType::kFloat16: return load(order::Float16{});
    case DType::kBFloat16: return load(order::BFloat16{});
    default:
      if constexpr (sizeof(Real) == 8) load(double{});
  }
}

template <class Real>
__device__ __forceinline__ void store_rounded(char* row, DType dtype, std::int64_t column, Real value) {
  switch (dtype) {
    case DType::kFloat32: reinterpret_cast<float*>(row)[column] = order::round_to<float>(value); break;
    case DType::kFloat64:
      reinterpret_cast<double*>(row)[column] = order::round_to<double>(static_cast<double>(value));
      break;
    case DType::kFloat16:
      reinterpret_cast<order::Float16*>(row)[column] = order::round_to<order::Float16>(value);
      break;
    default: reinterpret_cast<order::BFloat16*>(row)[column] = order::round_to<order::BFloat16>(value);
  }
}

// it of a row; NaN when a per-row temperature is not allowed.
template <class Row, class Problem>
__device__ __forceinline__ typename Row::Real inverse_temperature(const Problem& problem, std::int64_t row) {
  const double tau = problem.tau(row);
  if (!(tau >= 0x1p-64 && tau <= 0x1p64)) return order::canonical_nan<typename Row::Real>();
  return order::inverse_temperature<Row>(tau);
}

}  // namespace samebits::cuda
