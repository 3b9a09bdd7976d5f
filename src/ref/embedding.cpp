#include "ref/embedding.h"

#include <vector>

#include "order/number.h"

namespace samebits::ref {
namespace {

using core::EmbeddingProblem;

template <class T>
void lookup(const EmbeddingProblem& problem) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::int64_t id = problem.id(row);
    for (std::int64_t k = 0; k < problem.columns; ++k) {
      T& out = problem.out.at<T>(row)[k];
      if (id >= 0 && id < problem.vocab)
        out = static_cast<const T*>(
            problem.weight.data)[id * problem.weight.row_stride + k * problem.weight.column_stride];
      else
        out = order::round_to<T>(problem.nan_on_invalid ? order::canonical_nan<float>() : 0.0f);
    }
  }
}

// CONTRACT section 5.
template <class T, class Real>
void gradient(const EmbeddingProblem& problem) {
  std::vector<std::vector<std::int64_t>> positions(problem.vocab);
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::int64_t id = problem.id(row);
    const bool padding = problem.has_padding && id == problem.padding;
    if (id >= 0 && id < problem.vocab && !padding) positions[id].push_back(row);
  }
  for (std::int64_t id = 0; id < problem.vocab; ++id)
    for (std::int64_t k = 0; k < problem.columns; ++k) {
      // Segments of 1024 occurrences of the id.
      Real sum = 0;
      const auto count = static_cast<std::int64_t>(positions[id].size());
      for (std::int64_t begin = 0; begin < count; begin += 1024) {
        Real segment = 0;
        for (std::int64_t i = begin; i < count && i < begin + 1024; ++i)
          segment =
              segment + order::widen<Real>(problem.grad.at<T>(positions[id][i])[k * problem.grad_stride]);
        sum = sum + segment;
      }
      const std::int64_t at = id * problem.grad_weight_stride + k;
      Real* accumulator = static_cast<Real*>(problem.grad_weight) + at;
      if (!problem.accumulate)
        static_cast<T*>(problem.grad_weight)[at] = order::round_to<T>(sum);
      else if (count > 0)
        *accumulator = order::round_to<Real>(*accumulator + sum);
    }
}

}  // namespace

void embedding_forward(const EmbeddingProblem& problem) {
  switch (problem.dtype) {
    case DType::kFloat16: return lookup<order::Float16>(problem);
    case DType::kBFloat16: return lookup<order::BFloat16>(problem);
    case DType::kFloat64: return lookup<double>(problem);
    default: return lookup<float>(problem);
  }
}

void embedding_backward(const EmbeddingProblem& problem) {
  switch (problem.dtype) {
    case DType::kFloat16: return gradient<order::Float16, float>(problem);
    case DType::kBFloat16: return gradient<order::BFloat16, float>(problem);
    case DType::kFloat64: return gradient<double, double>(problem);
    default: return gradient<float, float>(problem);
  }
}

}  // namespace samebits::ref
