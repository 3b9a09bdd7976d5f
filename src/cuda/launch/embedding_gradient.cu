// Launches of the embedding's gradient.
#include "cuda/kernel/embedding_gradient.cuh"

#include <type_traits>

#include "cuda/launch/embedding_items.h"
#include "cuda/launch/id_order.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/segment_sum.h"

namespace samebits::cuda {
namespace {

IdList id_list(const core::EmbeddingProblem& problem) {
  return {problem.ids, problem.rows, nullptr, problem.vocab, problem.has_padding, problem.padding};
}

// `Terms` make rows, `LongTerms` the segments of long runs.
template <class Terms, class LongTerms, class Out, bool accumulate>
void run_gradient(const core::EmbeddingProblem& problem, const IdRuns& runs, void* partial,
                  const core::DeviceCall& call) {
  const auto long_runs = launch_long_runs(LongTerms(problem), runs, problem.columns, partial, call);
  const std::int64_t rows = accumulate ? problem.rows : problem.vocab;
  over_items({0, rows, problem.columns / Terms::kWidth}, [&](const ItemSplit& split, std::int64_t ctas) {
    launch("embedding_backward", embedding_backward_rows<Terms, Out, accumulate>, {ctas, kEmbeddingThreads},
           call, problem, Terms(problem), runs, long_runs, split);
  });
}

template <class T, class Out, bool accumulate>
void run_gradient_of(const core::EmbeddingProblem& problem, const IdRuns& runs, void* partial,
                     const core::DeviceCall& call) {
  constexpr int kWidth = 16 / sizeof(T), kNarrow = sizeof(T) == 2 ? 2 : 1;
  const auto run = [&]<class Terms, class LongTerms>(std::type_identity<Terms>,
                                                     std::type_identity<LongTerms>) {
    run_gradient<Terms, LongTerms, Out, accumulate>(problem, runs, partial, call);
  };
  using Any = std::type_identity<GradTerms<T, 1, false>>;
  using One = std::type_identity<GradTerms<T, 1>>;
  if (problem.grad_stride != 1 || problem.grad.index.rank > 1) return run(Any(), Any());
  const bool wide = problem.columns % kWidth == 0 && aligned_rows(problem.grad) &&
                    aligned(problem.grad_weight) &&
                    problem.grad_weight_stride * static_cast<std::int64_t>(sizeof(Out)) % 16 == 0;
  if (!wide) return run(One(), One());
  run(std::type_identity<GradTerms<T, kWidth>>(), std::type_identity<GradTerms<T, kNarrow>>());
}

template <class T>
void run_gradient_of(const core::EmbeddingProblem& problem, const IdRuns& runs, void* partial,
                     const core::DeviceCall& call) {
  using Real = std::conditional_t<sizeof(T) == 8, double, float>;
  problem.accumulate ? run_gradient_of<T, Real, true>(problem, runs, partial, call)
                     : run_gradient_of<T, T, false>(problem, runs, partial, call);
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
  const IdList list = id_list(problem);
  const IdRuns runs = find_id_runs(list, cleared_id_runs(list.limit, scratch, call), scratch, call);
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
