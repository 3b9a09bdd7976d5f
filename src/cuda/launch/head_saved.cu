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
    : rows_(saved_positions(head.saved.rows, positions)),
      chunk_(chunk),
      chunks_(rows_ == 0 ? 0 : (rows_ + chunk - 1) / chunk),
      in_stats_(engine.saves_p()) {
  if (rows_ == 0) return;
  const std::int64_t most = std::min(rows_, chunk);
  pieces.take(reference_, positions);
  pieces.take(late_count_, chunks_);
  late_.list = HeadRows(head.logp, most, false, pieces);
  pieces.take(late_.form, most);
  if (in_stats_) pieces.take(late_.to, most);
}

bool HeadSaving::prepare(const core::LinearLogpProblem& head, const HeadRows& list, float* logit,
                         const core::DeviceCall& call) const {
  if (rows_ == 0) return false;
  target_logits<order::RowV1>(head, list, {logit, reference_, late_count_, chunks_}, call);
  return true;
}

void HeadSaving::add_to(StatsTask& task, const core::LinearLogpProblem& head) const {
  if (!in_stats_ || kept(task.range) == 0) return;
  task.reference = reference_;
  task.p = saved_row(head, task.range.first);
  task.p_stride = head.saved.stride;
  task.p_rows = kept(task.range);
}

LateRows HeadSaving::late_of(const PositionRange& range) const {
  LateRows late = late_;
  late.list.count = late_count_ + range.first / chunk_;
  return late;
}

LateListing HeadSaving::listing(const core::LinearLogpProblem& head, const PositionRange& range,
                                void* hidden) const {
  if (!in_stats_ || kept(range) == 0) return {};
  return {reference_,
          kept(range),
          late_of(range),
          head.hidden,
          head.hidden_stride,
          head.hidden_size,
          static_cast<std::uint16_t*>(hidden),
          gathered_stride(head.hidden_size)};
}

void HeadSaving::list(const core::LinearLogpProblem& head, const HeadRows& list, const PositionRange& range,
                      void* hidden, const core::DeviceCall& call) const {
  const PositionRange stored{range.first, kept(range), range.count};
  if (stored.rows == 0) return;
  const LateRows late = late_of(range);
  launch("list_late_rows", list_late_rows, behind(saved_ctas(stored.rows), kSavedThreads), call, head.logp,
         list, stored, static_cast<const float*>(reference_), late);
  if (in_stats_) gather_hidden(head, late.list, {0, stored.rows, late.list.count}, hidden, call);
}

void HeadSaving::fill(const core::LinearLogpProblem& head, HeadEngine& engine, const PositionRange& range,
                      const void* hidden, const core::DeviceCall& call) const {
  if (kept(range) == 0) return;
  const LateRows late = late_of(range);
  PTask task;
  task.range = {0, kept(range), late.list.count};
  task.hidden = {hidden, gathered_stride(head.hidden_size), gathered_room(range.rows)};
  task.columns = head.logp.vocab;
  task.inverse_tau = static_cast<const float*>(late.list.inverse_tau);
  task.target = late.list.target;
  task.rows = late.form;
  task.sloped = false;
  task.p = saved_row(head, range.first);
  task.p_stride = head.saved.stride;
  task.to = late.to;
  engine.fill_p(task, call);
}

}  // namespace samebits::cuda
