// Which gradient kernel runs, and how its columns are cut. No choice here can change a bit.
#include "cuda/kernel/logp_backward.cuh"
#include "cuda/launch/column_parts.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

using Kernel = void (*)(core::LogpProblem, ColumnSplit);

template <class T>
void run_tile(const core::LogpProblem& problem, const core::DeviceCall& call) {
  const Kernel kernel = problem.grad_entropy ? logp_backward_tile<T, true> : logp_backward_tile<T, false>;
  const int steps = steps_of(problem, kStepColumns<T>, traits(call.device).multiprocessors);
  launch_columns("logp_backward_tile", kernel, problem, steps * kStepColumns<T>, call);
}

}  // namespace

void logp_backward(core::LogpProblem problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  Scratch scratch(call, with_row_list(problem, call, 0));
  take_row_list(problem, call, scratch);
  const bool alike = equally_aligned(problem.logits, problem.grad_logits, 16 / dtype_size(problem.dtype));
  if (problem.binary64 || !alike || problem.columns > kMost32BitColumns) {
    const Kernel kernel =
        problem.binary64 ? logp_backward_any<order::Row64V1> : logp_backward_any<order::RowV1>;
    return launch_columns("logp_backward_any", kernel, problem, kAnyColumns, call);
  }
  switch (problem.dtype) {
    case DType::kFloat32: return run_tile<float>(problem, call);
    case DType::kFloat16: return run_tile<order::Float16>(problem, call);
    default: return run_tile<order::BFloat16>(problem, call);
  }
}

}  // namespace samebits::cuda
