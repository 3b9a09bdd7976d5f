// Launches of the embedding's gradient.
#include "cuda/kernel/embedding_gradient.cuh"

#include "cuda/launch/embedding_items.h"
#include "cuda/launch/id_order.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/segment_sum.h"

namespace samebits::cuda {
namespace {

IdList id_list(const core::EmbeddingProblem& problem) {
  return {problem.ids, problem.rows, nullptr, problem.vocab, problem.has_padding, problem.padding};
}

template <class T, int width, bool accumulate>
void run_gradient(const core::EmbeddingProblem& problem, const IdRuns& runs, void* partial,
                  const core::DeviceCall& call) {
  const GradTerms<T, width> terms(problem);
  const auto long_runs = launch_long_runs(terms, runs, problem.columns, partial, call);
  over_items({0, problem.vocab, problem.columns / width}, [&](const ItemSplit& split, std::int64_t ctas) {
    launch("embedding_gradient", embedding_gradient<T, width, accumulate>, {ctas, kEmbeddingThreads}, call,
           problem, terms, runs, long_runs, split);
  });
}

template <class T>
void run_gradient_of(const core::EmbeddingProblem& problem, const IdRuns& runs, void* partial,
                     const core::DeviceCall& call) {
  constexpr int kWidth = 16 / sizeof(T);
  const std::int64_t out_bytes = problem.accumulate ? (sizeof(T) == 8 ? 8 : 4) : sizeof(T);
  const bool wide = problem.grad_stride == 1 && problem.grad.index.rank <= 1 &&
                    problem.columns % kWidth == 0 && aligned_rows(problem.grad) &&
                    aligned(problem.grad_weight) && problem.grad_weight_stride * out_bytes % 16 == 0;
  if (problem.accumulate)
    wide ? run_gradient<T, kWidth, true>(problem, runs, partial, call)
         : run_gradient<T, 1, true>(problem, runs, partial, call);
  else
    wide ? run_gradient<T, kWidth, false>(problem, runs, partial, call)
         : run_gradient<T, 1, false>(problem, runs, partial, call);
}

std::size_t partial_bytes(const core::EmbeddingProblem& problem) {
  return problem.dtype == DType::kFloat64 ? long_run_bytes<double>(problem.rows, problem.columns)
                                          : long_run_bytes<float>(problem.rows, problem.columns);
}

std::size_t gradient_bytes(const core::EmbeddingProblem& problem, const core::DeviceCall& call) {
  return find_id_runs_bytes(problem.rows, problem.vocab, call) + Scratch::rounded(partial_bytes(problem));
}

}  // namespace

void embedding_backward(const core::EmbeddingProblem& problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  Scratch scratch(call, gradient_bytes(problem, call));
  const IdRuns runs = find_id_runs(id_list(problem), scratch, call);
  void* const partial = scratch.take(partial_bytes(problem));
  switch (problem.dtype) {
    case DType::kFloat32: return run_gradient_of<float>(problem, runs, partial, call);
    case DType::kFloat16: return run_gradient_of<order::Float16>(problem, runs, partial, call);
    case DType::kBFloat16: return run_gradient_of<order::BFloat16>(problem, runs, partial, call);
    default: return run_gradient_of<double>(problem, runs, partial, call);
  }
}

std::size_t embedding_backward_scratch_bytes(const core::EmbeddingProblem& problem,
                                             const core::DeviceCall& call) {
  return Scratch::padded(gradient_bytes(problem, call));
}

}  // namespace samebits::cuda
