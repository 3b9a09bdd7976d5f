// The walk of a head's gradient: what is known of each row, then P segment by segment of the vocabulary and range by range
// of the rows, and its products.
#pragma once

#include <vector>

#include "cuda/launch/head_fit.h"
#include "cuda/launch/head_p_walk.h"
#include "cuda/launch/head_weight_walk.h"
#include "cuda/launch/id_order.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {

template <class Row>
class HeadWalk {
 public:
  using Real = typename Row::Real;
  static constexpr bool kP = sizeof(Real) == 4;  // the P form; else unfused

  HeadWalk(const core::LinearLogpGradient& problem, HeadEngine& engine, Pieces& pieces,
           const core::DeviceCall& call, std::int64_t promised)
      : problem_(problem),
        engine_(engine),
        call_(call),
        shape_(shape_of(problem.head)),
        order_bytes_(sorts() ? find_id_runs_bytes(most_positions(problem.head.logp, call),
                                                  problem.head.logp.vocab, call)
                             : 0),
        split_(fitting_split<Row>(problem, shape_, engine, most_positions(problem.head.logp, call),
                                  scratch_bytes(0), promised)),
        chunks_(split_.chunks()),
        at_(problem, split_, shape_, engine, pieces),
        p_(problem, engine, call, shape_, split_, at_),
        weight_(problem, engine, call, shape_, split_, at_) {}

  // Of a call whose pieces take `bytes`: with the rows by target, and the list of the rows.
  std::size_t scratch_bytes(std::size_t bytes) const {
    return with_row_list(problem_.head.logp, call_, order_bytes_ + bytes);
  }

  void run(Scratch& scratch) {
    engine_.use_scratch(at_.engine);
    // Ahead of the kernels that follow each other.
    const std::int64_t vocab = problem_.head.logp.vocab;
    IdRun* const runs = sorts() ? cleared_id_runs(vocab, scratch, call_) : nullptr;
    zero(at_.rows.scalars, 1);
    if (kP && problem_.grad_hidden && split_.held_segments == 0)
      find_largest_weight(problem_.head, &at_.rows.scalars->largest_weight, call_);
    prepare_head_rows<Row>(problem_, at_.rows, at_.logit, call_);
    if constexpr (kP)
      if (sorts()) {
        const HeadRows& list = at_.rows.list;
        at_.targets.runs = find_id_runs(id_list(list.target, list.capacity, list.count, vocab), runs, scratch,
                                        call_, list.capacity > 0);
        sum_long_targets(problem_, at_.rows, at_.targets, call_);
      }
    clear_head_padding(problem_, call_);
    zero(at_.counts, at_.counts != nullptr ? split_.positions * size() : 0);
    if (split_.positions == 0) zero(at_.total, weight() ? split_.total : 0);

    // Ahead of the products, which then follow each other.
    if (weight() && split_.one_range) x_of({0, split_.positions, at_.rows.list.count}, true);
    p_.add_saved_hidden();
    for (const HeadChunk& chunk : chunks_) walk_rows(chunk);
    if (problem_.grad_hidden) finish_hidden();
  }

 private:
  bool weight() const { return problem_.grad_weight != nullptr; }
  bool sorts() const { return kP && (weight() || problem_.grad_bias != nullptr); }
  std::int64_t size() const { return problem_.head.hidden_size; }

  void finish_hidden() const {
    if constexpr (kP)
      if (split_.held_segments > 0)
        return finish_held_hidden(problem_, at_.rows,
                                  {at_.sums, split_.held_segments, split_.positions * size()},
                                  problem_.grad_bias == nullptr && weight_.ends_small(), call_);
    finish_head_hidden<Row>(problem_, at_.rows, at_.counts, call_);
  }

  template <class T>
  void zero(T* array, std::int64_t count) const {
    if (count > 0)
      check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(count) * sizeof(T), stream_of(call_)), "zero");
  }

  void walk_rows(const HeadChunk& chunk) {
    // Of several ranges the totals of so many columns are held, and P of the others is computed once more.
    const bool some = weight() && !split_.one_range && !chunk.in_weight;
    std::int64_t done = some ? std::min(split_.weight_columns, chunk.columns) : chunk.columns;
    if (split_.apart) {
      p_.add_hidden_apart(chunk);
      if (weight() || problem_.grad_bias != nullptr) done = 0;
    } else {
      walk_ranges(chunk, done, false);
    }
    for (; done < chunk.columns; done += split_.weight_columns) {
      const std::int64_t columns = std::min(split_.weight_columns, chunk.columns - done);
      walk_ranges({chunk.column + done, columns, chunk.segment, {}}, columns, true);
    }
  }

  // grad_weight of the chunk's first columns, and all that has to be done once: not `again`, though grad_bias is left to the
  // second P where that is apart.
  void walk_ranges(const HeadChunk& chunk, std::int64_t weight_columns, bool again) {
    PositionRange range{0, 0, at_.rows.list.count};
    do {  // once where there are none, for the sums of nothing
      range.rows = std::min(chunk.in_weight ? split_.positions : split_.rows, split_.positions - range.first);
      const void* x =
          weight() && split_.holds_x() ? x_of(range, !split_.one_range && chunk.column == 0) : nullptr;
      const PColumns columns = p_.find(chunk, range, again);
      const bool beside_hidden = !again && x != nullptr && p_.ends_with_hidden(range);
      PColumns first = columns;
      first.columns = std::min(weight_columns, columns.columns);
      if (weight() && !at_once())  // where X is not held it takes the place of hidden
        weight_.add(first, x != nullptr ? x : x_of(range, false), range, beside_hidden, chunk.in_weight);
      if (split_.apart || !again) weight_.add_bias(columns, range);
      range.first += range.rows;
    } while (range.first < split_.positions);
    range = {0, split_.positions, at_.rows.list.count};
    if (weight() && at_once()) weight_.add(p_.find(chunk, range), at_.x, range, false, false);
    if (split_.apart || !again) weight_.finish_bias(chunk);
  }

  // Whether all ranges, whose P is saved, give their part of grad_weight in one product.
  bool at_once() const { return split_.finishes_all && !split_.one_range; }

  // X of a range, made where it is not there yet.
  const void* x_of(const PositionRange& range, bool first_columns) {
    const std::int64_t row = gathered_stride(size()) * dtype_size(stored_dtype(shape_));
    void* const x = split_.holds_x() ? static_cast<std::byte*>(at_.x) + range.first * row : at_.x;
    if (first_columns || !split_.holds_x()) fill_head_x<Row>(problem_.head, at_.rows, range, x, call_);
    return x;
  }

  const core::LinearLogpGradient& problem_;
  HeadEngine& engine_;
  const core::DeviceCall& call_;
  const HeadShape shape_;
  const std::size_t order_bytes_;
  const HeadSplit split_;
  const std::vector<HeadChunk> chunks_;
  HeadBuffers<Row> at_;
  HeadPWalk<Row> p_;
  HeadWeightWalk<Row> weight_;
};

}  // namespace samebits::cuda
