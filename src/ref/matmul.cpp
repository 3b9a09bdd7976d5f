#include "ref/matmul.h"

#include <cmath>
#include <vector>

#include "order/number.h"
#include "ref/forward_rows.h"

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

// Element (i, j), converted exactly.
template <class Real>
Real element(const core::Operand& operand, DType dtype, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * operand.row_stride + j * operand.column_stride;
  switch (dtype) {
    case DType::kFloat32: return Real(static_cast<const float*>(operand.data)[at]);
    case DType::kFloat64: return Real(static_cast<const double*>(operand.data)[at]);
    case DType::kFloat16: return Real(order::to_float(static_cast<const order::Float16*>(operand.data)[at]));
    default: return Real(order::to_float(static_cast<const order::BFloat16*>(operand.data)[at]));
  }
}

template <class Real>
std::vector<Real> dense(const core::Operand& operand, DType dtype, std::int64_t rows, std::int64_t columns) {
  std::vector<Real> copy(rows * columns);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) copy[i * columns + j] = element<Real>(operand, dtype, i, j);
  return copy;
}

template <class Real>
void product(const core::MatmulProblem& problem) {
  const std::vector<Real> a = dense<Real>(problem.a, problem.dtype, problem.rows, problem.depth);
  const std::vector<Real> b = dense<Real>(problem.b, problem.dtype, problem.depth, problem.columns);
  for (std::int64_t i = 0; i < problem.rows; ++i) {
    for (std::int64_t j = 0; j < problem.columns; ++j) {
      Real value = dot<Real>(a.data() + i * problem.depth, 1, b.data() + j, problem.columns, problem.depth);
      if (problem.bias != nullptr)
        value = value + element<Real>({problem.bias, 0, problem.bias_stride}, problem.dtype, 0, j);
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

template <class Real>
void linear_forward(const core::LinearLogpProblem& problem) {
  const DType dtype = problem.logp.dtype;
  const std::int64_t V = problem.logp.vocab, H = problem.hidden_size;
  const std::vector<Real> weight = dense<Real>(problem.weight, dtype, V, H);
  const std::vector<Real> bias = problem.bias == nullptr
                                     ? std::vector<Real>()
                                     : dense<Real>({problem.bias, 0, problem.bias_stride}, dtype, 1, V);
  forward_rows<Real>(problem.logp, [&](std::int64_t row) {
    core::Operand row_of_hidden{problem.hidden.data, 0, problem.hidden_stride};
    const std::int64_t offset = problem.hidden.index.offset(row);
    row_of_hidden.data = static_cast<const char*>(problem.hidden.data) + offset * dtype_size(dtype);
    const std::vector<Real> hidden = dense<Real>(row_of_hidden, dtype, 1, H);
    std::vector<Real> x(V);
    for (std::int64_t v = 0; v < V; ++v) {
      x[v] = dot<Real>(hidden.data(), 1, weight.data() + v * H, 1, H);
      if (!bias.empty()) x[v] = x[v] + bias[v];
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
  problem.dtype == DType::kFloat64 ? product<double>(problem) : product<float>(problem);
}

void linear_logp_forward(const core::LinearLogpProblem& problem) {
  problem.logp.binary64 ? linear_forward<double>(problem) : linear_forward<float>(problem);
}

}  // namespace samebits::ref
