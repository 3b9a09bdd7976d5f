// Launches of probability and row_sum.
#include "cuda/kernel/row_ops.cuh"

#include "cuda/launch/column_parts.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

// Most scratch for the subtrees of long rows; more rows than fit are done in turns.
constexpr std::int64_t kMaxPartialBytes = std::int64_t{16} << 20;

// Few rows are cut small, so that they spread over the device.
SubtreeSplit split_of(const core::RowSumProblem& problem, int multiprocessors) {
  const std::int64_t blocks = std::max<std::int64_t>(order::block_count(problem.columns), 1);
  SubtreeSplit split{0, 1, kSubtree};
  if (problem.rows < 8 * multiprocessors && blocks > 4 * kSmallSubtree) split.blocks = kSmallSubtree;
  split.subtrees = static_cast<int>((blocks + split.blocks - 1) / split.blocks);
  return split;
}

std::int64_t rows_per_turn(const core::RowSumProblem& problem, const SubtreeSplit& split) {
  if (split.subtrees == 1) return std::min(problem.rows, kMaxItems);
  return std::min(problem.rows, kMaxPartialBytes / (split.subtrees * dtype_size(problem.dtype)));
}

std::size_t partial_bytes(const core::RowSumProblem& problem, const SubtreeSplit& split) {
  if (split.subtrees == 1) return 0;
  return static_cast<std::size_t>(rows_per_turn(problem, split) * split.subtrees * dtype_size(problem.dtype));
}

template <class Real>
void run_row_sum(const core::RowSumProblem& problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  SubtreeSplit split = split_of(problem, traits(call.device).multiprocessors);
  Scratch scratch(call, Scratch::rounded(partial_bytes(problem, split)));
  auto* partial = static_cast<Real*>(scratch.take(partial_bytes(problem, split)));
  const int threads = 32 * kBlockWarps;
  in_ranges(problem.rows, rows_per_turn(problem, split), [&](std::int64_t first, std::int64_t rows) {
    split.first_row = first;
    launch("row_sum_blocks", row_sum_blocks<Real>, {rows * split.subtrees, threads}, call, problem, split,
           partial);
    if (split.subtrees > 1)
      launch("row_sum_subtrees", row_sum_subtrees<Real>, {rows, threads}, call, problem, split, partial);
  });
}

template <class T>
void run_probability_tile(const core::LogpProblem& problem, const core::DeviceCall& call) {
  const int steps = steps_of(problem, kFourColumns, traits(call.device).multiprocessors);
  launch_columns("probability_tile", probability_tile<T>, problem, steps * kFourColumns, call);
}

}  // namespace

void probability(core::LogpProblem problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  Scratch scratch(call, with_row_list(problem, call, 0));
  take_row_list(problem, call, scratch);
  const bool alike = equally_aligned(problem.logits, problem.probabilities, 4);
  if (problem.binary64 || !alike || problem.columns > kMost32BitColumns)
    return launch_columns("probability_any",
                          problem.binary64 ? probability_any<order::Row64V1> : probability_any<order::RowV1>,
                          problem, kAnyColumns, call);
  switch (problem.dtype) {
    case DType::kFloat32: return run_probability_tile<float>(problem, call);
    case DType::kFloat16: return run_probability_tile<order::Float16>(problem, call);
    default: return run_probability_tile<order::BFloat16>(problem, call);
  }
}

void row_sum(const core::RowSumProblem& problem, const core::DeviceCall& call) {
  problem.dtype == DType::kFloat64 ? run_row_sum<double>(problem, call) : run_row_sum<float>(problem, call);
}

std::size_t row_sum_scratch_bytes(const core::RowSumProblem& problem, const core::DeviceCall& call) {
  const SubtreeSplit split = split_of(problem, traits(call.device).multiprocessors);
  return Scratch::padded(Scratch::rounded(partial_bytes(problem, split)));
}

}  // namespace samebits::cuda
