#include "ref/logp.h"

#include "ref/forward_rows.h"

namespace samebits::ref {
namespace {

using core::LogpProblem;
using core::RowKind;

// Element `i` of a row of logits, converted exactly.
template <class Real>
Real logit(const LogpProblem& problem, std::int64_t row, std::int64_t i) {
  switch (problem.dtype) {
    case DType::kFloat32: return Real(problem.logits.at<float>(row)[i]);
    case DType::kFloat64: return Real(problem.logits.at<double>(row)[i]);
    case DType::kFloat16: return Real(order::to_float(problem.logits.at<order::Float16>(row)[i]));
    default: return Real(order::to_float(problem.logits.at<order::BFloat16>(row)[i]));
  }
}

// Element `i` of the gradient: one rounding to the type of the logits.
template <class Real>
void store_gradient(const LogpProblem& problem, std::int64_t row, std::int64_t i, Real value) {
  switch (problem.dtype) {
    case DType::kFloat32: problem.grad_logits.at<float>(row)[i] = order::round_to<float>(value); break;
    case DType::kFloat64:
      problem.grad_logits.at<double>(row)[i] = order::round_to<double>(double(value));
      break;
    case DType::kFloat16:
      problem.grad_logits.at<order::Float16>(row)[i] = order::round_to<order::Float16>(value);
      break;
    default: problem.grad_logits.at<order::BFloat16>(row)[i] = order::round_to<order::BFloat16>(value);
  }
}

template <class Real>
std::vector<Real> logits_row(const LogpProblem& problem, std::int64_t row) {
  std::vector<Real> x(problem.vocab);
  for (std::int64_t i = 0; i < problem.vocab; ++i) x[i] = logit<Real>(problem, row, i);
  return x;
}

// A missing upstream is +0.
template <class Real>
Real upstream(const core::RowArray<const void>& gradient, std::int64_t row) {
  return gradient ? *gradient.at<Real>(row) : Real(0);
}

template <class Real>
void backward(const LogpProblem& problem) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    // Rows with an invalid id or unselected, and columns beyond the vocabulary, have +0.
    for (std::int64_t i = 0; i < problem.columns; ++i) store_gradient<Real>(problem, row, i, Real(0));
    const std::int64_t id = problem.target(row);
    if (problem.kind(row, id) != RowKind::kLive) continue;

    const std::vector<Real> z = scaled_logits<Real>(problem, row);
    std::vector<Real> dx(z.size());
    row_gradient<Real>(saved_statistics<Real>(problem, row), z, id,
                       inverse_temperature<Real>(problem.tau(row)),
                       {upstream<Real>(problem.grad_logp, row), upstream<Real>(problem.grad_lse, row),
                        upstream<Real>(problem.grad_entropy, row)},
                       dx);
    for (std::int64_t i = 0; i < problem.vocab; ++i) store_gradient<Real>(problem, row, i, dx[i]);
  }
}

}  // namespace

template <class Real>
Statistics<Real> saved_statistics(const LogpProblem& problem, std::int64_t row) {
  Statistics<Real> saved{static_cast<const Real*>(problem.saved_max)[row], 0, 0};
  const auto load = [row](const void* from) {
    const auto* words = static_cast<const std::uint64_t*>(from);
    if constexpr (sizeof(Real) == 4)
      return Sum64(words[row]);
    else
      return (Sum128(words[2 * row + 1]) << 64) | words[2 * row];
  };
  saved.S = load(problem.saved_sum);
  if (problem.saved_entropy_sum != nullptr) saved.U = load(problem.saved_entropy_sum);
  return saved;
}
template Statistics<float> saved_statistics<float>(const LogpProblem&, std::int64_t);
template Statistics<double> saved_statistics<double>(const LogpProblem&, std::int64_t);

template <class Real>
Real inverse_temperature(double tau) {
  const Real rounded = static_cast<Real>(tau);
  return Real(1) / rounded;
}
template float inverse_temperature<float>(double);
template double inverse_temperature<double>(double);

template <class Real>
std::vector<Real> scaled_logits(const LogpProblem& problem, std::int64_t row) {
  std::vector<Real> z = logits_row<Real>(problem, row);
  const Real it = inverse_temperature<Real>(problem.tau(row));
  for (Real& value : z) value = value * it;
  return z;
}
template std::vector<float> scaled_logits<float>(const LogpProblem&, std::int64_t);
template std::vector<double> scaled_logits<double>(const LogpProblem&, std::int64_t);

void logp_forward(const LogpProblem& problem) {
  if (problem.binary64)
    forward_rows<double>(problem, [&](std::int64_t row) { return logits_row<double>(problem, row); });
  else
    forward_rows<float>(problem, [&](std::int64_t row) { return logits_row<float>(problem, row); });
}

void logp_backward(const LogpProblem& problem) {
  problem.binary64 ? backward<double>(problem) : backward<float>(problem);
}

}  // namespace samebits::ref
