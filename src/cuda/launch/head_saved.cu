#include "cuda/kernel/head_saved.cuh"

#include "cuda/launch/head_target.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/product_tiles.h"

namespace samebits::cuda {
namespace {

std::int64_t saved_ctas(std::int64_t rows) { return (rows + kSavedThreads - 1) / kSavedThreads; }

void* saved_row(const core::LinearLogpProblem& head, std::int64_t position) {
  return static_cast<std::byte*>(head.saved.data) +
         position * head.saved.stride * dtype_size(head.hidden.dtype);
}

}  // namespace

HeadSaving::HeadSaving(const core::LinearLogpProblem& head, const HeadEngine& engine, std::int64_t positions,
                       std::int64_t chunk, Pieces& pieces)
    : rows_(saved_positions(head.saved.rows, positions)), in_stats_(engine.saves_p()) {
  if (rows_ == 0) return;
  const std::int64_t most = std::min(rows_, chunk);
  pieces.take(reference_, positions);
  late_.list = HeadRows(head.logp, most, false, pieces);
  pieces.take(late_.form, most);
  if (in_stats_) pieces.take(late_.to, most);
}

void HeadSaving::prepare(const core::LinearLogpProblem& head, const HeadRows& list, float* logit,
                         const core::DeviceCall& call) const {
  if (rows_ == 0) return;
  target_logits<order::RowV1>(head, list, logit, call);
  launch("target_references", target_references, behind(saved_ctas(list.capacity), kSavedThreads), call, head,
         list, static_cast<const float*>(logit), reference_);
}

void HeadSaving::add_to(StatsTask& task, const core::LinearLogpProblem& head) const {
  if (!in_stats_ || kept(task.range) == 0) return;
  task.reference = reference_;
  task.p = saved_row(head, task.range.first);
  task.p_stride = head.saved.stride;
  task.p_rows = kept(task.range);
}

void HeadSaving::finish(const core::LinearLogpProblem& head, HeadEngine& engine, const HeadRows& list,
                        const PositionRange& range, void* hidden, const core::DeviceCall& call) const {
  const PositionRange stored{range.first, kept(range), range.count};
  if (stored.rows == 0) return;
  const PositionRange late{0, stored.rows, late_.list.count};
  if (in_stats_)
    check(cudaMemsetAsync(late_.list.count, 0, sizeof(std::int32_t), stream_of(call)), "list_late_rows");
  launch("list_late_rows", list_late_rows, behind(saved_ctas(stored.rows), kSavedThreads), call, head.logp,
         list, stored, static_cast<const float*>(reference_), late_);
  if (in_stats_) gather_hidden(head, late_.list, late, hidden, call);
  PTask task;
  task.range = late;
  task.hidden = {hidden, gathered_stride(head.hidden_size), gathered_room(range.rows)};
  task.columns = head.logp.vocab;
  task.inverse_tau = static_cast<const float*>(late_.list.inverse_tau);
  task.target = late_.list.target;
  task.rows = late_.form;
  task.sloped = false;
  task.p = saved_row(head, range.first);
  task.p_stride = head.saved.stride;
  task.to = late_.to;
  engine.fill_p(task, call);
}

}  // namespace samebits::cuda
