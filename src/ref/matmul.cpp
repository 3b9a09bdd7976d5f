#include "ref/matmul.h"

#include <cmath>
#include <vector>

#include "order/number.h"
#include "ref/forward_rows.h"
#include "ref/tc16.h"

namespace samebits::ref {
namespace {

constexpr std::int64_t kSegmentColumns = 8192;

template <class Real>
Real dot(const Real* a, std::int64_t a_stride, const Real* b, std::int64_t b_stride, std::int64_t depth) {
  Real total = 0;
  for (std::int64_t begin = 0; begin < depth; begin += kSegmentColumns) {
    const std::int64_t end = begin + kSegmentColumns < depth ? begin + kSegmentColumns : depth;
    Real acc = 0;
    for (std::int64_t k = begin; k < end; ++k) acc = std::fma(a[k * a_stride], b[k * b_stride], acc);
    total = total + acc;
  }
  return total;
}

// Element `at` of `data`, converted exactly.
template <class Real>
Real number(const void* data, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::kFloat32: return Real(static_cast<const float*>(data)[at]);
    case DType::kFloat64: return Real(static_cast<const double*>(data)[at]);
    case DType::kFloat16: return Real(order::to_float(static_cast<const order::Float16*>(data)[at]));
    default: return Real(order::to_float(static_cast<const order::BFloat16*>(data)[at]));
  }
}

// What fma.v1 and fma64.v1 (Real is float or double) and tc16.v1 make of the elements, and how they add up.
template <class Result>
struct Fma {
  using Real = Result;
  using Element = Real;
  static Element element(const void* data, DType dtype, std::int64_t at) {
    return number<Real>(data, dtype, at);
  }
  static Real dot(const Element* a, std::int64_t a_stride, const Element* b, std::int64_t b_stride,
                  std::int64_t depth) {
    return ref::dot(a, a_stride, b, b_stride, depth);
  }
};
struct Tc16 {
  using Real = float;
  using Element = Tc16Number;
  static Element element(const void* data, DType dtype, std::int64_t at) {
    return tc16_number(dtype, static_cast<const std::uint16_t*>(data)[at]);
  }
  static Real dot(const Element* a, std::int64_t a_stride, const Element* b, std::int64_t b_stride,
                  std::int64_t depth) {
    return dot_tc16(a, a_stride, b, b_stride, depth);
  }
};

template <class Contract>
std::vector<typename Contract::Element> dense(const core::Operand& operand, DType dtype, std::int64_t rows,
                                              std::int64_t columns) {
  std::vector<typename Contract::Element> copy(rows * columns);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      copy[i * columns + j] =
          Contract::element(operand.data, dtype, i * operand.row_stride + j * operand.column_stride);
  return copy;
}

template <class Contract>
void product(const core::MatmulProblem& problem) {
  using Real = typename Contract::Real;
  const auto a = dense<Contract>(problem.a, problem.dtype, problem.rows, problem.depth);
  const auto b = dense<Contract>(problem.b, problem.dtype, problem.depth, problem.columns);
  for (std::int64_t i = 0; i < problem.rows; ++i) {
    for (std::int64_t j = 0; j < problem.columns; ++j) {
      Real value =
          Contract::dot(a.data() + i * problem.depth, 1, b.data() + j, problem.columns, problem.depth);
      if (problem.bias != nullptr)
        value = value + number<Real>(problem.bias, problem.dtype, j * problem.bias_stride);
      const std::int64_t at = i * problem.out_row_stride + j;
      switch (problem.out_dtype) {
        case DType::kFloat32: static_cast<float*>(problem.out)[at] = order::round_to<float>(value); break;
        case DType::kFloat64:
          static_cast<double*>(problem.out)[at] = order::round_to<double>(double(value));
          break;
        case DType::kFloat16:
          static_cast<order::Float16*>(problem.out)[at] = order::round_to<order::Float16>(value);
          break;
        default: static_cast<order::BFloat16*>(problem.out)[at] = order::round_to<order::BFloat16>(value);
      }
    }
  }
}

template <class Contract>
void linear_forward(const core::LinearLogpProblem& problem) {
  using Real = typename Contract::Real;
  const DType dtype = problem.hidden.dtype;
  const std::int64_t V = problem.logp.vocab, H = problem.hidden_size;
  const auto weight = dense<Contract>(problem.weight, dtype, V, H);
  forward_rows<Real>(problem.logp, [&](std::int64_t row) {
    core::Operand row_of_hidden{problem.hidden.data, 0, problem.hidden_stride};
    const std::int64_t offset = problem.hidden.index.offset(row);
    row_of_hidden.data = static_cast<const char*>(problem.hidden.data) + offset * dtype_size(dtype);
    const auto hidden = dense<Contract>(row_of_hidden, dtype, 1, H);
    std::vector<Real> x(V);
    for (std::int64_t v = 0; v < V; ++v) {
      x[v] = Contract::dot(hidden.data(), 1, weight.data() + v * H, 1, H);
      if (problem.bias != nullptr) x[v] = x[v] + number<Real>(problem.bias, dtype, v * problem.bias_stride);
    }
    return x;
  });
}

}  // namespace

float dot_fma(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
              std::int64_t depth) {
  return dot<float>(a, a_stride, b, b_stride, depth);
}
double dot_fma64(const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride,
                 std::int64_t depth) {
  return dot<double>(a, a_stride, b, b_stride, depth);
}

void matmul(const core::MatmulProblem& problem) {
  if (problem.tc16)
    product<Tc16>(problem);
  else
    problem.dtype == DType::kFloat64 ? product<Fma<double>>(problem) : product<Fma<float>>(problem);
}

void linear_logp_forward(const core::LinearLogpProblem& problem) {
  if (problem.tc16)
    linear_forward<Tc16>(problem);
  else
    problem.logp.binary64 ? linear_forward<Fma<double>>(problem) : linear_forward<Fma<float>>(problem);
}

}  // namespace samebits::ref
