#include "cuda/kernel/head_rows.cuh"

#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

std::int64_t list_ctas(std::int64_t rows) {
  return std::max<std::int64_t>((rows + kRowsOfList - 1) / kRowsOfList, 1);
}

template <class Bits>
void gather(const core::LinearLogpProblem& head, const HeadRows& rows, const PositionRange& range, void* out,
            const core::DeviceCall& call, bool beside) {
  const std::int64_t ctas = (range.rows + kGatherWarps - 1) / kGatherWarps;
  launch("gather_rows", gather_rows<Bits>, behind(beside ? ctas + 1 : ctas, 32 * kGatherWarps), call,
         head.hidden, head.hidden_stride, head.hidden_size, rows.row, range, static_cast<Bits*>(out),
         gathered_stride(head.hidden_size), beside);
}

}  // namespace

HeadRows::HeadRows(const core::LogpProblem& problem, std::int64_t most, bool positions, Pieces& pieces)
    : capacity(most) {
  pieces.take(count, 1);
  pieces.take(row, capacity);
  pieces.take(target, capacity);
  if (problem.row_temperature || problem.temperature != 1.0)
    inverse_tau = pieces.take_bytes(static_cast<std::size_t>(capacity) * (problem.binary64 ? 8 : 4));
  if (positions) pieces.take(position, problem.rows);
  if (list_ctas(problem.rows) > 1) pieces.take(counts, list_ctas(problem.rows));
}

void check_row_count(const core::LogpProblem& problem) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 64;
  if (problem.rows > kMost)
    throw Error(ErrorCode::kUnsupported, "hidden",
                "has " + std::to_string(problem.rows) + " rows; on a GPU it may have at most " +
                    std::to_string(kMost));
}

void list_head_rows(const core::LogpProblem& problem, const HeadRows& rows, const core::DeviceCall& call) {
  static_assert(kRowsOfList == kListThreads * kListSteps);
  const std::int64_t ctas = list_ctas(problem.rows);
  if (ctas > 1) {
    launch("count_rows", count_rows, {ctas, kListThreads}, call, problem, rows.counts);
    launch("sum_counts", sum_counts, {1, kListThreads}, call, rows.counts, ctas);
  }
  launch("list_rows", problem.binary64 ? list_rows<order::Row64V1> : list_rows<order::RowV1>,
         behind(ctas, kListThreads), call, problem, rows.counts, rows);
}

void gather_hidden(const core::LinearLogpProblem& head, const HeadRows& rows, const PositionRange& range,
                   void* out, const core::DeviceCall& call, bool beside) {
  switch (dtype_size(head.hidden.dtype)) {
    case 2: return gather<std::uint16_t>(head, rows, range, out, call, beside);
    case 4: return gather<std::uint32_t>(head, rows, range, out, call, beside);
    default: return gather<std::uint64_t>(head, rows, range, out, call, beside);
  }
}

}  // namespace samebits::cuda
