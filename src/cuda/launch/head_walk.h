// The walk of a head's gradient: what is known of each row, then P segment by segment of the vocabulary and range by range
// of the rows, and its products.
#pragma once

#include <vector>

#include "cuda/launch/head_weight_walk.h"
#include "cuda/launch/id_order.h"

namespace samebits::cuda {

template <class Row>
class HeadWalk {
 public:
  using Real = typename Row::Real;
  static constexpr bool kP = sizeof(Real) == 4;  // the P form; else unfused

  HeadWalk(const core::LinearLogpGradient& problem, HeadEngine& engine, Pieces& pieces,
           const core::DeviceCall& call)
      : problem_(problem),
        engine_(engine),
        call_(call),
        shape_(shape_of(problem.head)),
        split_(problem, shape_, engine),
        chunks_(split_.chunks(problem.head.logp.vocab)),
        at_(problem, split_, shape_, engine, pieces),
        weight_(problem, engine, call, shape_, split_, at_) {}

  // Of what the pieces do not count: the rows by target.
  std::size_t order_bytes() const {
    return sorts() ? find_id_runs_bytes(problem_.head.logp.rows, problem_.head.logp.vocab, call_) : 0;
  }

  void run(Scratch& scratch) {
    engine_.use_scratch(at_.engine);
    prepare_head_rows<Row>(problem_, at_.rows, at_.logit, call_);
    if constexpr (kP)
      if (sorts()) {
        const HeadRows& list = at_.rows.list;
        at_.targets.runs = find_id_runs(
            id_list(list.target, list.capacity, list.count, problem_.head.logp.vocab), scratch, call_);
        sum_long_targets(problem_, at_.rows, at_.targets, call_);
        if (at_.entries != nullptr) weight_.find_entries(chunks_);
      }
    clear_head_padding(problem_, call_);
    zero(at_.counts, problem_.grad_hidden ? problem_.head.logp.rows * problem_.head.hidden_size : 0);
    if (problem_.head.logp.rows == 0) zero(at_.total, weight() ? split_.total_rows * size() : 0);

    for (const HeadChunk& chunk : chunks_) walk_rows(chunk);
    if (problem_.grad_hidden) finish_head_hidden<Row>(problem_, at_.rows, at_.counts, call_);
  }

 private:
  bool weight() const { return problem_.grad_weight != nullptr; }
  bool sorts() const { return kP && (weight() || problem_.grad_bias != nullptr); }
  std::int64_t size() const { return problem_.head.hidden_size; }

  template <class T>
  void zero(T* array, std::int64_t count) const {
    if (count > 0)
      check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(count) * sizeof(T), stream_of(call_)), "zero");
  }

  void walk_rows(const HeadChunk& chunk) {
    const PColumns columns{at_.p, at_.p_stride, chunk.column, chunk.columns};
    PositionRange range{0, 0, at_.rows.list.count};
    do {  // once where there are none, for the sums of nothing
      range.rows = std::min(split_.rows, problem_.head.logp.rows - range.first);
      const bool once =
          split_.one_range && columns.column != 0;  // what does not depend on the columns is there
      if (!once) gather_hidden(problem_.head, at_.rows.list, range, at_.hidden, call_);
      fill_p(columns, range);
      if (problem_.grad_hidden) add_hidden(chunk, range);
      if (weight() && !once) fill_head_x<Row>(problem_.head, at_.rows, range, at_.x, call_);
      if (weight()) weight_.add(columns, range);
      if (problem_.grad_bias != nullptr)
        add_head_bias<Row>(problem_.head, at_.rows, range, columns, at_.bias_partial, at_.bias_total, call_);
      range.first += range.rows;
    } while (range.first < problem_.head.logp.rows);
    if (problem_.grad_bias != nullptr)
      finish_head_bias<Row>(problem_, at_.rows, at_.targets, columns, at_.bias_total, call_);
  }

  void fill_p(const PColumns& columns, const PositionRange& range) {
    PTask task;
    task.range = range;
    task.hidden = {at_.hidden, gathered_stride(size()), gathered_room(split_.rows)};
    task.column = columns.column;
    task.columns = columns.columns;
    task.inverse_tau = static_cast<const float*>(at_.rows.list.inverse_tau);
    task.target = at_.rows.list.target;
    task.rows = at_.rows.form;
    task.sloped = bool{problem_.head.logp.grad_entropy};
    task.p = at_.p;
    task.p_stride = at_.p_stride;
    if (range.rows > 0) engine_.fill_p(task, call_);
  }

  void add_hidden(const HeadChunk& columns, const PositionRange& range) {
    HiddenTask task;
    task.range = range;
    task.column = columns.column;
    task.columns = columns.columns;
    task.segments = columns.segments;
    task.p = at_.p;
    task.p_stride = at_.p_stride;
    task.exponent = at_.rows.exponent;
    task.nan_row = at_.rows.nan_row;
    task.counts = at_.counts;
    if (range.rows > 0) engine_.add_hidden(task, call_);
  }

  const core::LinearLogpGradient& problem_;
  HeadEngine& engine_;
  const core::DeviceCall& call_;
  const HeadShape shape_;
  const HeadSplit split_;
  const std::vector<HeadChunk> chunks_;
  HeadBuffers<Row> at_;
  HeadWeightWalk<Row> weight_;
};

}  // namespace samebits::cuda
