// The inner loops of the gradient of linear_logp beside the products, one set per instruction set.
#pragma once

#include "cpu/row_kernels.h"
#include "order/p_form.h"

namespace samebits::cpu {

struct PFormKernels {
  // P of `columns` logits before the temperature, none of them treated as the target, before any rounding to 16 bits.
  // `row` is one whose M is finite.
  using Columns = void (*)(const order::PRow& row, float inverse_tau, const float* x, float* p,
                           std::int64_t columns);
  // acc[i] = fma(factor, x[i], acc[i]).
  template <class Real>
  using AddScaled = void (*)(Real factor, const Real* x, Real* acc, std::int64_t count);

  Columns columns = nullptr;
  AddScaled<float> add_scaled32 = nullptr;
  AddScaled<double> add_scaled64 = nullptr;

  template <class Real>
  AddScaled<Real> add_scaled() const {
    if constexpr (sizeof(Real) == 4)
      return add_scaled32;
    else
      return add_scaled64;
  }
};

// Null when this build does not have the instruction set.
const PFormKernels* p_form_kernels(Isa isa);

}  // namespace samebits::cpu
