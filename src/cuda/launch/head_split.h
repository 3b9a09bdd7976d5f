// How a head's gradient is cut up. Segments of the two products are the contract's; the rest is free.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/launch/head_chunks.h"
#include "cuda/launch/head_generic.h"
#include "cuda/launch/head_weight.h"
#include "order/dot.h"

namespace samebits::cuda {

// Of P, unless a single segment of the columns is more. At 8192 rows there is room for a segment and the rest of a slice.
inline constexpr std::int64_t kPBytes = std::int64_t{192} << 20;

// Positions, and bytes, of which the sums that grad_hidden is made of are held segment by segment. They spare a walk through weight
// for its largest element alone, which with few rows takes as long as a product.
inline constexpr std::int64_t kHeldRows = 512, kHeldBytes = std::int64_t{96} << 20;

// Rows of P for grad_hidden where grad_weight has a P of its own.
inline constexpr std::int64_t kApartRows = 1024;

// What a split may hold at most, beside the bounds that it has anyway.
struct HeadRoom {
  static constexpr std::int64_t kAny = std::int64_t{1} << 62;
  bool sums = true, both = true;  // both: one P for both products
  bool hidden = true;             // scratch for gathered hidden states
  std::int64_t columns = kAny, gathered = kAny, weight_columns = kAny;
};

struct HeadSplit {
  std::int64_t positions;  // that rows can have
  std::int64_t saved;      // of them, whose P the forward pass kept
  std::int64_t rows;       // positions of P worked on at a time: a range
  std::int64_t gathered;   // positions whose hidden states are held at a time
  HeadSegments segments;   // of the vocabulary
  std::int64_t columns;    // of P worked on at a time, in scratch: whole segments
  std::int64_t
      held_segments;  // of all columns, whose sums for grad_hidden are held; 0: they are counted at once
  std::int64_t weight_columns;  // that add_weight is given at a time, and that have totals
  std::int64_t total;           // elements of the totals held at a time
  bool one_range;               // all positions fit
  // P is computed twice, each time in a smaller part: of all columns of a chunk for kApartRows rows and grad_hidden, and of
  // weight_columns for all rows of a range and the others.
  bool apart, can_be_apart;
  bool x_in_gradient;  // X of all positions lies in the buffer of grad_hidden, which is written last
  // Gathered hidden states may lie in rows of grad_weight that are written later; and they do.
  bool weight_holds_hidden, hidden_in_weight;
  bool engine_finishes;       // grad_weight
  bool finishes_all;          // the same, of all positions at once, so that no total is held
  WeightRoom weight_room;     // for P
  std::int64_t most_columns;  // of a chunk

  HeadSplit(const core::LinearLogpGradient& problem, const HeadShape& shape, const HeadEngine& engine,
            std::int64_t most, const HeadRoom& room = {})
      : positions(most) {
    const std::int64_t vocab = problem.head.logp.vocab, all = positions;
    const std::int64_t stored = dtype_size(stored_dtype(shape)), size = problem.head.hidden_size;
    // With an entropy gradient P depends on the upstream.
    saved = problem.head.logp.grad_entropy ? 0 : saved_positions(problem.saved.rows, all);
    one_range = all <= order::kSegment;
    rows = std::min(all, order::kSegment);
    can_be_apart = stored == 2 && holds_p();
    apart = !room.both && can_be_apart;
    x_in_gradient = problem.grad_weight != nullptr && gradient_holds_x(problem.grad_hidden, shape);
    const std::int64_t slice = !shape.binary64 && problem.grad_hidden ? order::slice_columns(vocab) : vocab;
    const std::int64_t segment = std::min(slice, order::kSegment);
    segments = {vocab, slice, segment};
    held_segments = 0;
    if (room.sums && problem.grad_hidden && engine.holds_sums() && all <= kHeldRows) {
      const auto count = static_cast<std::int64_t>(segments.all().segments.size());
      if (count * all * size * 4 <= kHeldBytes) held_segments = count;
    }
    // With fewer rows more columns, so that the products stay large.
    columns = segment;
    if (one_range)
      columns =
          std::clamp(kPBytes / (std::max<std::int64_t>(rows, 1) * stored), segment, std::max(segment, vocab));
    engine_finishes = all > 0 && engine.finishes_weight() && even_rows(problem);
    finishes_all = engine_finishes &&
                   (one_range || (!holds_p() && x_in_gradient && all <= engine.most_positions_of_weight()));
    if (finishes_all && !holds_p()) columns = std::max(segment, vocab);  // no P is held of them
    columns = segments.widest(std::max(segment, std::min(columns, room.columns)));
    // P in grad_weight is of all positions, and hidden states may have to lie in the scratch of P meanwhile.
    if (engine_finishes && holds_p() && holds_x() && !apart && all <= engine.most_positions_of_weight() &&
        weight_is_dense(problem) && p_elements() >= gathered_room(1) * size)
      weight_room = {size * stored, all};
    weight_columns = std::min(columns, kFinishedColumns);
    if (finishes_all && !apart)
      weight_columns = columns;
    else  // with one range a total is finished as soon as it is there; else P of the next columns is computed anew
      weight_columns = std::min(weight_columns, room.weight_columns);
    most_columns = 0;
    for (const HeadChunk& chunk : chunks()) most_columns = std::max(most_columns, chunk.columns);
    total = problem.grad_weight == nullptr ? 0
            : finishes_all ? engine.finish_elements(all, apart ? weight_columns : most_columns)
                           : weight_columns * size;
    if (weight_room.row > 0) total = std::max(total, engine.finish_elements(all, most_columns));
    weight_holds_hidden = holds_p() && holds_x() && gradient_holds_hidden(problem, last_columns());
    hidden_in_weight = weight_holds_hidden && !room.hidden;
    gathered = hidden_in_weight ? rows : std::min(rows, room.gathered);
  }

  // The most elements that P has in scratch.
  std::int64_t p_elements() const {
    if (!apart) return rows * p_stride(columns);
    return std::max(std::min(rows, kApartRows) * p_stride(columns), rows * p_stride(weight_columns));
  }
  // Whether there are positions whose P has to be computed, in a buffer.
  bool holds_p() const { return saved < positions; }
  // Whether X of all positions is held, so that it is made once.
  bool holds_x() const { return one_range || x_in_gradient; }

  // All columns, `columns` at a time, or more where P of them has room in grad_weight: products of many columns lose less
  // at their begin and end. With several ranges, fewer will do: there all positions give their part in one product.
  std::vector<HeadChunk> chunks() const {
    std::vector<HeadChunk> all;
    for (std::int64_t column = 0; column < segments.vocab; column += all.back().columns) {
      all.push_back(segments.chunk_from(column, columns));
      HeadChunk other = weight_room.chunk_from(column, segments);
      if (other.columns > (one_range ? all.back().columns : 0)) all.back() = std::move(other);
    }
    return all;
  }

 private:
  // The first one of the rows of grad_weight that are written last.
  std::int64_t last_columns() const {
    const HeadChunk last = chunks().back();
    return last.column + (last.columns - 1) / weight_columns * weight_columns;
  }
};

}  // namespace samebits::cuda
