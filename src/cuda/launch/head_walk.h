// The walk of a head's gradient: what is known of each row, then P segment by segment of the vocabulary and range by range
// of the rows, and its products.
#pragma once

#include <vector>

#include "cuda/launch/head_buffers.h"
#include "cuda/launch/id_order.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/product_tiles.h"

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
        at_(problem, split_, shape_, engine, pieces) {}

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
        if (at_.entries != nullptr) find_entries();
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

  // Of every call of add_weight, in their order.
  void find_entries() {
    std::vector<std::int32_t> begins;
    for (const HeadChunk& chunk : chunks_)
      in_ranges(chunk.columns, split_.weight_columns, [&](std::int64_t first, std::int64_t) {
        begins.push_back(static_cast<std::int32_t>(chunk.column + first));
      });
    find_column_entries(at_.targets, begins, problem_.head.logp.vocab, split_.total_rows, at_.entries, call_);
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
      if (weight()) add_weight(columns, range);
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
    task.hidden = {at_.hidden, gathered_stride(size())};
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

  // With the last range the columns are finished.
  void add_weight(const PColumns& columns, const PositionRange& range) {
    const bool last = range.first + range.rows == problem_.head.logp.rows;
    in_ranges(columns.columns, split_.weight_columns, [&](std::int64_t first, std::int64_t count) {
      WeightTask task;
      task.range = range;
      task.column = columns.column + first;
      task.columns = count;
      task.p = element_at(at_.p, stored_dtype(shape_), first);
      task.p_stride = at_.p_stride;
      task.x = at_.x;
      task.x_stride = gathered_stride(size());
      task.total = reinterpret_cast<float*>(at_.total);
      if (range.rows == 0 || !last || !split_.engine_finishes) {
        if (range.rows > 0) engine_.add_weight(task, call_);
        if (last)
          finish_head_weight<Row>(problem_, at_.rows, at_.targets, at_.total, task.column, count, nullptr,
                                  call_);
      } else if constexpr (kP) {
        finish_by_engine(task);
      }
    });
  }

  // Further passes where there may be more targets among the columns than side rows; most often they find none.
  void finish_by_engine(WeightTask& task) {
    const core::LinearLogpProblem& head = problem_.head;
    WeightFinish finish;
    const std::int64_t element = dtype_size(problem_.accumulate ? DType::kFloat32 : head.hidden.dtype);
    finish.out =
        static_cast<std::byte*>(problem_.grad_weight) + task.column * problem_.grad_weight_stride * element;
    finish.stride = problem_.grad_weight_stride;
    finish.accumulate = problem_.accumulate;
    finish.scalars = at_.rows.scalars;
    finish.run = at_.targets.runs.run + task.column;
    task.finish = &finish;
    if (split_.one_range) {
      finish.side.entries = at_.entries + weight_calls_++;
      finish.side.capacity = static_cast<std::uint32_t>(split_.total_rows);
    }
    const int passes =
        split_.one_range ? static_cast<int>((head.logp.rows + split_.total_rows - 1) / split_.total_rows) : 1;
    for (; finish.side.pass < passes; ++finish.side.pass) {
      engine_.add_weight(task, call_);
      finish_head_weight<Row>(problem_, at_.rows, at_.targets, at_.total, task.column, task.columns,
                              &finish.side, call_);
    }
  }

  const core::LinearLogpGradient& problem_;
  HeadEngine& engine_;
  const core::DeviceCall& call_;
  const HeadShape shape_;
  const HeadSplit split_;
  const std::vector<HeadChunk> chunks_;
  HeadBuffers<Row> at_;
  std::int64_t weight_calls_ = 0;  // of add_weight that finished
};

}  // namespace samebits::cuda
