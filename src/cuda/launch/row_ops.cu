// Launches of probability and row_sum.
#include "cuda/kernel/row_ops.cuh"

#include "cuda/launch/column_parts.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

// Most scratch for the subtrees of long rows; more rows than fit are done in turns.
constexpr std::int64_t kMaxPartialBytes = std::int64_t{16} << 20;

int subtrees_of(const core::RowSumProblem& problem) {
  const std::int64_t blocks = order::block_count(problem.columns);
  return static_cast<int>(std::max<std::int64_t>((blocks + kSubtree - 1) / kSubtree, 1));
}

std::int64_t rows_per_turn(const core::RowSumProblem& problem) {
  const std::int64_t subtrees = subtrees_of(problem);
  if (subtrees == 1) return std::min(problem.rows, kMaxItems);
  return std::min(problem.rows, kMaxPartialBytes / (subtrees * dtype_size(problem.dtype)));
}

std::size_t partial_bytes(const core::RowSumProblem& problem) {
  const int subtrees = subtrees_of(problem);
  return subtrees == 1
             ? 0
             : static_cast<std::size_t>(rows_per_turn(problem) * subtrees * dtype_size(problem.dtype));
}

template <class Real>
void run_row_sum(const core::RowSumProblem& problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  Scratch scratch(call, Scratch::rounded(partial_bytes(problem)));
  auto* partial = static_cast<Real*>(scratch.take(partial_bytes(problem)));
  const int subtrees = subtrees_of(problem), threads = 32 * kBlockWarps;
  in_ranges(problem.rows, rows_per_turn(problem), [&](std::int64_t first, std::int64_t rows) {
    launch("row_sum_blocks", row_sum_blocks<Real>, {rows * subtrees, threads}, call, problem, first, subtrees,
           partial);
    if (subtrees > 1)
      launch("row_sum_subtrees", row_sum_subtrees<Real>, {rows, threads}, call, problem, first, subtrees,
             partial);
  });
}

}  // namespace

void probability(core::LogpProblem problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  Scratch scratch(call, with_row_list(problem, call, 0));
  take_row_list(problem, call, scratch);
  launch_columns("probability_any",
                 problem.binary64 ? probability_any<order::Row64V1> : probability_any<order::RowV1>, problem,
                 kAnyColumns, call);
}

void row_sum(const core::RowSumProblem& problem, const core::DeviceCall& call) {
  problem.dtype == DType::kFloat64 ? run_row_sum<double>(problem, call) : run_row_sum<float>(problem, call);
}

std::size_t row_sum_scratch_bytes(const core::RowSumProblem& problem, const core::DeviceCall&) {
  return Scratch::padded(Scratch::rounded(partial_bytes(problem)));
}

}  // namespace samebits::cuda
