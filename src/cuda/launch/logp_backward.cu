// Which gradient kernel runs, and how its columns are cut. No choice here can change a bit.
#include "cuda/launch/logp_backward.h"

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/kernel/logp_backward_bulk.cuh"
#include "cuda/launch/column_parts.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

using Kernel = void (*)(core::LogpProblem, ColumnSplit);

// From how many rows on a kernel of its own prepares them.
constexpr std::int64_t kManyRows = 256;

// False where the copy engine has too little to do: parts that are half empty, or fewer than may run at once.
template <class T>
bool run_bulk(const core::LogpProblem& problem, const void* rows, const core::DeviceCall& call) {
  const bool entropy = static_cast<bool>(problem.grad_entropy);
  const Kernel kernel = entropy ? logp_backward_bulk<T, true> : logp_backward_bulk<T, false>;
  constexpr int kColumns = kBulkChunks<T> * kChunkColumns<T>;
  const std::int64_t parts = (problem.columns + kColumns - 1) / kColumns;
  const std::int64_t at_once = std::int64_t{traits(call.device).multiprocessors} * kBulkCtas;
  if (problem.columns < kColumns / 2 || problem.rows * parts < at_once) return false;
  if (!has_sm90_code("logp_backward_bulk", reinterpret_cast<const void*>(kernel))) return false;
  launch_columns("logp_backward_bulk", kernel, problem, kColumns, call, rows, kBulkBytes<T>);
  return true;
}

template <class T>
void run(const core::LogpProblem& problem, GradientShared<order::RowV1>* rows, const core::DeviceCall& call) {
  if (rows != nullptr)
    launch("gradient_rows", gradient_rows<order::RowV1>,
           {(problem.rows + kRowThreads - 1) / kRowThreads, kRowThreads}, call, problem, rows);
  if (run_bulk<T>(problem, rows, call)) return;
  const Kernel kernel = problem.grad_entropy ? logp_backward_tile<T, true> : logp_backward_tile<T, false>;
  // With the row at hand a CTA does little but its columns.
  const int most = rows == nullptr ? 4 : 2;
  const int steps = steps_of(problem, kStepColumns<T>, traits(call.device).multiprocessors, most);
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
    case DType::kFloat32: return run<float>(problem, rows, call);
    case DType::kFloat16: return run<order::Float16>(problem, rows, call);
    default: return run<order::BFloat16>(problem, rows, call);
  }
}

}  // namespace samebits::cuda
