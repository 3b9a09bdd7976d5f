// How a head's gradient is cut up. Segments of the two products are the contract's; the rest is free.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/launch/head_generic.h"
#include "cuda/launch/head_weight.h"
#include "order/dot.h"

namespace samebits::cuda {

// Of P, hidden, X, the total and what the engine takes, where one range is enough.
inline constexpr std::int64_t kWalkBytes = std::int64_t{252} << 20;
// Of P, unless a single segment of the columns is more.
inline constexpr std::int64_t kPBytes = std::int64_t{128} << 20;
// Positions whose hidden states are held at a time, where there are several ranges and X lies elsewhere: with P of a
// segment of columns eight full waves of 132 multiprocessors, or four where lists of the positions take the room.
inline constexpr std::int64_t kGatheredRows = 6144, kFewerGatheredRows = 3072;
// Positions of which lists and sums of long runs leave that room.
inline constexpr std::int64_t kMostForGatheredRows = 16384;

// Positions, and bytes, of which the sums that grad_hidden is made of are held segment by segment. They spare a walk through weight
// for its largest element alone, which with few rows takes as long as a product.
inline constexpr std::int64_t kHeldRows = 512, kHeldBytes = std::int64_t{96} << 20;

// Columns of P worked on at a time: whole segments, counted from `column`.
struct HeadChunk {
  std::int64_t column = 0, columns = 0;
  std::int64_t segment = 0;  // number of its first one
  std::vector<Segment> segments;
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
  std::int64_t weight_columns;  // of P that add_weight is given at a time
  std::int64_t total;           // elements of the totals held at a time
  bool one_range;               // all positions fit
  bool x_in_gradient;           // X of all positions lies in the buffer of grad_hidden, which is written last
  bool engine_finishes;         // grad_weight

  HeadSplit(const core::LinearLogpGradient& problem, const HeadShape& shape, const HeadEngine& engine,
            std::int64_t most)
      : positions(most) {
    const std::int64_t vocab = problem.head.logp.vocab, all = positions;
    const std::int64_t stored = dtype_size(stored_dtype(shape)), size = problem.head.hidden_size;
    // With an entropy gradient P depends on the upstream.
    saved = problem.head.logp.grad_entropy ? 0 : saved_positions(problem.saved.rows, all);
    one_range = all <= order::kSegment;
    rows = std::min(all, order::kSegment);
    x_in_gradient = problem.grad_weight != nullptr && holds_x(problem.grad_hidden, shape);
    gathered = one_range || !x_in_gradient   ? rows
               : all <= kMostForGatheredRows ? kGatheredRows
                                             : kFewerGatheredRows;
    slice = !shape.binary64 && problem.grad_hidden ? order::slice_columns(vocab) : vocab;
    segment = std::min(slice, order::kSegment);
    held_segments = 0;
    if (problem.grad_hidden && engine.holds_sums() && all <= kHeldRows) {
      const auto count = static_cast<std::int64_t>(chunks(vocab, vocab).front().segments.size());
      if (count * all * size * 4 <= kHeldBytes) held_segments = count;
    }
    // With fewer rows more columns, so that the products stay large.
    columns = segment;
    if (one_range)
      columns =
          std::clamp(kPBytes / (std::max<std::int64_t>(rows, 1) * stored), segment, std::max(segment, vocab));
    engine_finishes = all > 0 && engine.finishes_weight() && even_rows(problem);
    if (one_range && engine_finishes && !holds_p())
      columns = std::max(segment, vocab);  // nothing is held of them
    weight_columns = std::min(columns, kFinishedColumns);
    if (one_range && engine_finishes) {
      weight_columns = columns;
      total = engine.finish_elements(columns);
      return;
    }
    // With one range a total is finished as soon as it is there, so it need not hold all columns.
    const std::int64_t row = (holds_p() ? columns * stored + size * dtype_size(shape.dtype) : 0) +
                             (x_in_gradient ? 0 : size * stored);
    const std::int64_t held = rows * row + static_cast<std::int64_t>(engine.scratch_bytes(rows));
    // 3584 columns of Nemotron's width are three full waves of 132 multiprocessors.
    for (const std::int64_t fewer : {3584, 1792, 1024})
      if (one_range && held + weight_columns * size * (shape.binary64 ? 8 : 4) > kWalkBytes)
        weight_columns = std::min(weight_columns, fewer);
    total = weight_columns * size;
  }

  // Whether there are positions whose P has to be computed, in a buffer.
  bool holds_p() const { return saved < positions; }
  // Whether X of all positions is held, so that it is made once.
  bool holds_x() const { return one_range || x_in_gradient; }

  // All columns, `columns` at a time.
  std::vector<HeadChunk> chunks(std::int64_t vocab) const { return chunks(vocab, columns); }
  // The same with as many as `most` at a time.
  std::vector<HeadChunk> chunks(std::int64_t vocab, std::int64_t most) const {
    std::vector<HeadChunk> all(1);
    for (std::int64_t begin = 0; begin < vocab; begin += slice) {
      const std::int64_t end = std::min(begin + slice, vocab);
      for (std::int64_t first = begin; first < end; first += segment) {
        const std::int64_t count = std::min(segment, end - first);
        if (all.back().columns + count > most)
          all.push_back(
              {first, 0, all.back().segment + static_cast<std::int64_t>(all.back().segments.size()), {}});
        HeadChunk& chunk = all.back();
        chunk.segments.push_back(
            {static_cast<std::int32_t>(chunk.columns), static_cast<std::int32_t>(count)});
        chunk.columns += count;
      }
    }
    return all;
  }

 private:
  // Whether rows of X fit into those of a gradient of hidden.
  static bool holds_x(const core::RowArray<void>& gradient, const HeadShape& shape) {
    const core::RowIndex& index = gradient.index;
    return gradient && dtype_size(gradient.dtype) == dtype_size(stored_dtype(shape)) &&
           gathered_stride(shape.hidden_size) == shape.hidden_size &&
           (index.rank == 0 || (index.rank == 1 && index.strides[0] == shape.hidden_size)) &&
           reinterpret_cast<std::uintptr_t>(gradient.data) % 256 == 0;
  }
};

}  // namespace samebits::cuda
