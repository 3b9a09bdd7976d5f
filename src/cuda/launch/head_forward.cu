// linear_logp forward: the rows that take part, their block statistics by an engine, and the end of each row.
#include "cuda/kernel/head_forward.cuh"
#include "cuda/launch/head_calls.h"
#include "cuda/launch/head_engines.h"
#include "cuda/launch/head_saved.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

// Of a chunk of rows: gathered hidden states and block statistics; and its rows, however little these take.
constexpr std::int64_t kChunkBytes = std::int64_t{112} << 20, kMostRows = 8192;

// Rows of a chunk: as few chunks as possible, of equal length.
std::int64_t chunk_rows(std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::clamp<std::int64_t>(kChunkBytes / row_bytes / 128 * 128, 128, kMostRows);
  if (rows <= most) return rows;
  const std::int64_t chunks = (rows + most - 1) / most;
  return std::min(most, ((rows + chunks - 1) / chunks + 127) / 128 * 128);
}

template <class Row>
struct ForwardArrays {
  using Real = typename Row::Real;

  HeadRows rows;
  std::int64_t chunk = 0, blocks = 0;
  Real* target_logit = nullptr;  // [positions]
  void* hidden = nullptr;        // [chunk, stride]
  BlockStats<Real> stats = {};   // each [blocks, chunk]
  void* engine = nullptr;
  HeadSaving saving;

  ForwardArrays(const core::LinearLogpProblem& head, const HeadEngine& by, Pieces& pieces,
                const core::DeviceCall& call)
      : rows(head.logp, most_positions(head.logp, call), false, pieces),
        chunk(chunk_rows(rows.capacity, row_bytes(head))),
        blocks(order::block_count(head.logp.vocab)),
        saving(head, by, rows.capacity, chunk, pieces) {
    const bool entropy = head.logp.wants_entropy();
    pieces.take(target_logit, rows.capacity);
    hidden = pieces.take_bytes(static_cast<std::size_t>(gathered_room(chunk) * hidden_bytes(head)));
    pieces.take(stats.m, chunk * blocks);
    pieces.take(stats.s, chunk * blocks);
    if (entropy) pieces.take(stats.u, chunk * blocks);
    engine = pieces.take_bytes(by.scratch_bytes(chunk));
  }

 private:
  static std::int64_t hidden_bytes(const core::LinearLogpProblem& head) {
    return gathered_stride(head.hidden_size) * dtype_size(head.hidden.dtype);
  }
  static std::int64_t row_bytes(const core::LinearLogpProblem& head) {
    return hidden_bytes(head) +
           BlockStats<Real>::bytes(order::block_count(head.logp.vocab), head.logp.wants_entropy());
  }
};

template <class Row>
void run(const core::LinearLogpProblem& head, HeadEngine& engine, Scratch& scratch,
         const core::DeviceCall& call) {
  Pieces pieces(&scratch);
  const ForwardArrays<Row> at(head, engine, pieces, call);
  engine.use_scratch(at.engine);
  list_head_rows(head.logp, at.rows, call);
  bool beside = false;  // the kernel ahead of the first chunk is one that waits for the list itself
  if constexpr (sizeof(typename Row::Real) == 4)
    beside = at.saving.prepare(head, at.rows, at.target_logit, call);
  in_ranges(at.rows.capacity, at.chunk, [&](std::int64_t first, std::int64_t rows) {
    const PositionRange range{first, rows, at.rows.count};
    gather_hidden(head, at.rows, range, at.hidden, call, beside && first == 0);
    StatsTask task;
    task.range = range;
    task.hidden = {at.hidden, gathered_stride(head.hidden_size), gathered_room(at.chunk)};
    task.inverse_tau = static_cast<const float*>(at.rows.inverse_tau);
    task.target = at.rows.target;
    task.max = reinterpret_cast<float*>(at.stats.m);
    task.sum = reinterpret_cast<float*>(at.stats.s);
    task.entropy_sum = reinterpret_cast<float*>(at.stats.u);
    task.target_logit = reinterpret_cast<float*>(at.target_logit);
    at.saving.add_to(task, head);
    engine.block_stats(task, call);
    const RangeStats<Row> from{range, at.stats, at.target_logit, static_cast<int>(at.blocks)};
    if (rows <= kFewRows) {
      launch("finish_few_rows", finish_few_rows<Row>, {rows, kFewThreads}, call, head.logp, at.rows, from,
             at.saving.listing(head, range, at.hidden));
      if (!engine.saves_p()) at.saving.list(head, at.rows, range, at.hidden, call);
    } else {
      launch("finish_rows", finish_rows<Row>, {(rows + kFinishRows - 1) / kFinishRows, 32 * kFinishWarps},
             call, head.logp, at.rows, from);
      at.saving.list(head, at.rows, range, at.hidden, call);
    }
    at.saving.fill(head, engine, range, at.hidden, call);
  });
}

std::size_t scratch_bytes(const core::LinearLogpProblem& head, const HeadEngine& engine,
                          const core::DeviceCall& call) {
  Pieces pieces(nullptr);
  if (head.logp.binary64)
    ForwardArrays<order::Row64V1>(head, engine, pieces, call);
  else
    ForwardArrays<order::RowV1>(head, engine, pieces, call);
  return with_row_list(head.logp, call, pieces.bytes());
}

}  // namespace

void linear_logp_forward_by(HeadEngine& engine, core::LinearLogpProblem head, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  check_row_count(head.logp);
  Scratch scratch(call, scratch_bytes(head, engine, call));
  take_row_list(head.logp, call, scratch);
  if (head.logp.binary64)
    run<order::Row64V1>(head, engine, scratch, call);
  else
    run<order::RowV1>(head, engine, scratch, call);
}

void linear_logp_forward(core::LinearLogpProblem head, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const HeadEngineChoice choice = make_head_engine(shape_of(head), call.device);
  linear_logp_forward_by(*choice.engine, head, call);
}

std::size_t linear_logp_scratch_bytes(const core::LinearLogpProblem& head, const core::DeviceCall& call) {
  if (head.logp.rows == 0) return 0;
  check_row_count(head.logp);
  const DeviceGuard guard(call.device);
  const HeadEngineChoice choice = make_head_engine(shape_of(head), call.device);
  return Scratch::padded(scratch_bytes(head, *choice.engine, call));
}

}  // namespace samebits::cuda
