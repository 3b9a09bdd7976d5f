// Which gradient kernel runs, and how its columns are cut. No choice here can change a bit.
#include "cuda/launch/logp_backward.h"

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/launch/column_parts.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

using Kernel = void (*)(core::LogpProblem, ColumnSplit);

// From how many rows on a kernel of its own prepares them.
constexpr std::int64_t kManyRows = 1024;

template <class T>
void run_tile(const core::LogpProblem& problem, GradientShared<order::RowV1>* rows,
              const core::DeviceCall& call) {
  const Kernel kernel = problem.grad_entropy ? logp_backward_tile<T, true> : logp_backward_tile<T, false>;
  // With the row at hand a CTA does little but its columns.
  const int most = rows == nullptr ? 4 : 2;
  const int steps = steps_of(problem, kStepColumns<T>, traits(call.device).multiprocessors, most);
  if (rows != nullptr)
    launch("gradient_rows", gradient_rows<order::RowV1>,
           {(problem.rows + kRowThreads - 1) / kRowThreads, kRowThreads}, call, problem, rows);
  launch_columns("logp_backward_tile", kernel, problem, steps * kStepColumns<T>, call, rows);
}

}  // namespace

std::size_t gradient_rows_bytes(const core::LogpProblem& problem) {
  if (problem.binary64 || problem.rows < kManyRows) return 0;
  return static_cast<std::size_t>(problem.rows) * sizeof(GradientShared<order::RowV1>);
}

void logp_backward(core::LogpProblem problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const std::size_t rows_bytes = gradient_rows_bytes(problem);
  Scratch scratch(call, with_row_list(problem, call, rows_bytes));
  take_row_list(problem, call, scratch);
  const bool alike = equally_aligned(problem.logits, problem.grad_logits, 16 / dtype_size(problem.dtype));
  if (problem.binary64 || !alike || problem.columns > kMost32BitColumns) {
    const Kernel kernel =
        problem.binary64 ? logp_backward_any<order::Row64V1> : logp_backward_any<order::RowV1>;
    return launch_columns("logp_backward_any", kernel, problem, kAnyColumns, call);
  }
  auto* const rows = static_cast<GradientShared<order::RowV1>*>(scratch.take(rows_bytes));
  switch (problem.dtype) {
    case DType::kFloat32: return run_tile<float>(problem, rows, call);
    case DType::kFloat16: return run_tile<order::Float16>(problem, rows, call);
    default: return run_tile<order::BFloat16>(problem, rows, call);
  }
}

}  // namespace samebits::cuda
