// How a head's gradient is cut up. Segments of the two products are the contract's; the rest is free.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/launch/head_generic.h"
#include "cuda/launch/head_places.h"
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

// Columns of P worked on at a time: whole segments, counted from `column`.
struct HeadChunk {
  std::int64_t column = 0, columns = 0;
  std::int64_t segment = 0;  // number of its first one
  std::vector<Segment> segments;
  bool in_weight = false;  // P of all positions lies in rows of grad_weight that are written later
};

struct HeadSplit {
  std::int64_t positions;       // that rows can have
  std::int64_t saved;           // of them, whose P the forward pass kept
  std::int64_t rows;            // positions of P worked on at a time: a range
  std::int64_t gathered;        // positions whose hidden states are held at a time
  std::int64_t slice, segment;  // of the vocabulary: where segments are anchored anew, and their length
  std::int64_t columns;         // of P worked on at a time: whole segments
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
  bool engine_finishes;  // grad_weight
  bool finishes_all;     // the same, of all positions at once, so that no total is held
  // Bytes of a row of grad_weight where rows that are written later may hold P, and the most columns of a chunk.
  std::int64_t weight_row = 0, most_columns;

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
    slice = !shape.binary64 && problem.grad_hidden ? order::slice_columns(vocab) : vocab;
    segment = std::min(slice, order::kSegment);
    held_segments = 0;
    if (room.sums && problem.grad_hidden && engine.holds_sums() && all <= kHeldRows) {
      const auto count = static_cast<std::int64_t>(chunk_from(0, vocab, vocab).segments.size());
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
    columns = widest(std::max(segment, std::min(columns, room.columns)), vocab);
    // P in grad_weight is of all positions, and hidden states may have to lie in the scratch of P meanwhile.
    if (engine_finishes && holds_p() && holds_x() && !apart && all <= engine.most_positions_of_weight() &&
        weight_is_dense(problem) && p_elements() >= gathered_room(1) * size)
      weight_row = size * stored;
    weight_columns = std::min(columns, kFinishedColumns);
    if (finishes_all && !apart)
      weight_columns = columns;
    else  // with one range a total is finished as soon as it is there; else P of the next columns is computed anew
      weight_columns = std::min(weight_columns, room.weight_columns);
    most_columns = 0;
    for (const HeadChunk& chunk : chunks(vocab)) most_columns = std::max(most_columns, chunk.columns);
    total = problem.grad_weight == nullptr ? 0
            : finishes_all ? engine.finish_elements(all, apart ? weight_columns : most_columns)
                           : weight_columns * size;
    if (weight_row > 0) total = std::max(total, engine.finish_elements(all, most_columns));
    weight_holds_hidden = holds_p() && holds_x() && gradient_holds_hidden(problem, last_columns(vocab));
    hidden_in_weight = weight_holds_hidden && !room.hidden;
    gathered = hidden_in_weight ? rows : std::min(rows, room.gathered);
  }

  // Elements between rows of P of so many columns, and the most elements that P has.
  static std::int64_t p_stride(std::int64_t columns) { return (columns + 127) / 128 * 128; }
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
  std::vector<HeadChunk> chunks(std::int64_t vocab) const {
    std::vector<HeadChunk> all;
    for (std::int64_t column = 0; column < vocab; column += all.back().columns) {
      all.push_back(chunk_from(column, vocab, columns));
      HeadChunk other = chunk_in_weight(column, vocab);
      if (other.columns > (one_range ? all.back().columns : 0)) all.back() = std::move(other);
    }
    return all;
  }

  // Where P of a chunk lies in grad_weight, in bytes: behind the rows that the chunk's own product writes.
  std::int64_t p_in_weight(const HeadChunk& chunk) const {
    return ((chunk.column + chunk.columns) * weight_row + kAligned - 1) / kAligned * kAligned;
  }

  // Whole segments from `column` on, which begins one: of at most so many columns, but at least one.
  HeadChunk chunk_from(std::int64_t column, std::int64_t vocab, std::int64_t most) const {
    const std::int64_t in_slice = (slice + segment - 1) / segment;
    HeadChunk chunk{column, 0, column / slice * in_slice + column % slice / segment, {}};
    while (column < vocab) {
      const std::int64_t count = std::min({segment, slice - column % slice, vocab - column});
      if (chunk.columns > 0 && chunk.columns + count > most) break;
      chunk.segments.push_back({static_cast<std::int32_t>(chunk.columns), static_cast<std::int32_t>(count)});
      chunk.columns += count;
      column += count;
    }
    return chunk;
  }

 private:
  // The most columns that chunks of at most so many have.
  std::int64_t widest(std::int64_t most, std::int64_t vocab) const {
    std::int64_t columns = 0, column = 0;
    for (const Segment& part : chunk_from(0, vocab, vocab).segments) {
      columns = std::max(columns, chunk_from(column, vocab, most).columns);
      column += part.columns;
    }
    return columns;
  }

  // The largest chunk from `column` on whose P has room in the rows of grad_weight behind it; without columns: none has.
  HeadChunk chunk_in_weight(std::int64_t column, std::int64_t vocab) const {
    if (weight_row == 0) return {};
    std::int64_t most = (vocab - column) * weight_row / (weight_row + positions * 2);
    for (;;) {
      HeadChunk chunk = chunk_from(column, vocab, most);
      chunk.in_weight = true;
      if (chunk.columns > most) return {};
      if (p_in_weight(chunk) + positions * p_stride(chunk.columns) * 2 <= vocab * weight_row) return chunk;
      most = chunk.columns - 1;
    }
  }

  // The first one of the rows of grad_weight that are written last.
  std::int64_t last_columns(std::int64_t vocab) const {
    const HeadChunk last = chunks(vocab).back();
    return last.column + (last.columns - 1) / weight_columns * weight_columns;
  }
};

}  // namespace samebits::cuda
