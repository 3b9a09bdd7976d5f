// A product after its arguments were checked: what a backend gets to see.
#pragma once

#include <cstdint>

#include "core/logp_problem.h"

namespace samebits::core {

// A matrix operand: element (i, j) at data[i * row_stride + j * column_stride].
struct Operand {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

// out[i, j] = sum over k of a(i, k) * b(k, j), plus bias[j] where there is one, under fma.v1, fma64.v1 or tc16.v1.
struct MatmulProblem {
  std::int64_t rows = 0, columns = 0, depth = 0;  // M, N, K
  DType dtype = DType::kFloat32;                  // of a and b
  bool tc16 = false;                              // tc16.v1 instead of fma.v1; dtype is then a 16-bit one
  DType out_dtype = DType::kFloat32;
  Operand a = {}, b = {};
  void* out = nullptr;
  std::int64_t out_row_stride = 0;
  const void* bias = nullptr;  // [N] of dtype, or null
  std::int64_t bias_stride = 1;
};

// P of the first rows that take part, `stride` elements from row to row; none where `rows` is 0.
template <class Void>
struct SavedP {
  Void* data = nullptr;
  std::int64_t rows = 0, stride = 0;
};

// logp of hidden @ weight.T + bias; `logp.logits` is absent, `logp.rows` counts the rows of hidden.
struct LinearLogpProblem {
  LogpProblem logp = {};
  bool tc16 = false;  // tc16.v1 instead of fma.v1; hidden, weight and bias are then of a 16-bit type
  std::int64_t hidden_size = 0;      // H
  RowArray<const void> hidden = {};  // rows of hidden, `hidden_stride` between neighbouring elements
  std::int64_t hidden_stride = 1;
  Operand weight = {};         // (v, k)
  const void* bias = nullptr;  // [V] or null
  std::int64_t bias_stride = 1;
  SavedP<void> saved = {};  // to be written by the forward pass, on a device
};

}  // namespace samebits::core
