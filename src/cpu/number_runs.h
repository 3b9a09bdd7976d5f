// Runs of numbers of any floating type, to and from the type that is computed in.
#pragma once

#include <cstdint>

#include <samebits/dtype.h>

#include "order/number.h"

namespace samebits::cpu {

// `body(T{})` with the storage type of `dtype`; in binary64 there is one alone.
template <class Real, class Body>
void with_number_type(DType dtype, Body&& body) {
  if constexpr (sizeof(Real) == 8) {
    body(double{});
  } else {
    switch (dtype) {
      case DType::kFloat16: return body(order::Float16{});
      case DType::kBFloat16: return body(order::BFloat16{});
      default: return body(float{});
    }
  }
}

// out[i] = element `offset + i * stride` of `data`, exactly.
template <class Real>
void widen_numbers(DType dtype, const void* data, std::int64_t offset, std::int64_t stride,
                   std::int64_t count, Real* out) {
  with_number_type<Real>(dtype, [&]<class In>(In) {
    const In* in = static_cast<const In*>(data) + offset;
    for (std::int64_t i = 0; i < count; ++i) out[i] = order::widen<Real>(in[i * stride]);
  });
}

// Element `offset + i * stride` of `data` = values[i], rounded once.
template <class Real>
void round_numbers(DType dtype, const Real* values, std::int64_t count, void* data, std::int64_t offset,
                   std::int64_t stride) {
  with_number_type<Real>(dtype, [&]<class Out>(Out) {
    Out* out = static_cast<Out*>(data) + offset;
    for (std::int64_t i = 0; i < count; ++i) out[i * stride] = order::round_to<Out>(values[i]);
  });
}

}  // namespace samebits::cpu
