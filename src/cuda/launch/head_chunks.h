// The columns that a head's gradient works on at a time: whole segments of the vocabulary, which are the contract's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/launch/head_engine.h"
#include "cuda/launch/head_places.h"

namespace samebits::cuda {

// Columns of P worked on at a time, and their segments, counted from `column`.
struct HeadChunk {
  std::int64_t column = 0, columns = 0;
  std::int64_t segment = 0;  // number of its first one
  std::vector<Segment> segments;
  bool in_weight = false;  // P of all positions lies in rows of grad_weight that are written later
};

// Elements between rows of P of so many columns.
constexpr std::int64_t p_stride(std::int64_t columns) { return (columns + 127) / 128 * 128; }

struct HeadSegments {
  std::int64_t vocab, slice, length;  // slice: where segments are anchored anew

  HeadChunk all() const { return chunk_from(0, vocab); }

  // From `column` on, which begins a segment: at most so many columns, but at least one segment.
  HeadChunk chunk_from(std::int64_t column, std::int64_t most) const {
    const std::int64_t in_slice = (slice + length - 1) / length;
    HeadChunk chunk{column, 0, column / slice * in_slice + column % slice / length, {}};
    while (column < vocab) {
      const std::int64_t count = std::min({length, slice - column % slice, vocab - column});
      if (chunk.columns > 0 && chunk.columns + count > most) break;
      chunk.segments.push_back({static_cast<std::int32_t>(chunk.columns), static_cast<std::int32_t>(count)});
      chunk.columns += count;
      column += count;
    }
    return chunk;
  }

  // The most columns that chunks of at most so many have.
  std::int64_t widest(std::int64_t most) const {
    std::int64_t columns = 0, column = 0;
    for (const Segment& part : all().segments) {
      columns = std::max(columns, chunk_from(column, most).columns);
      column += part.columns;
    }
    return columns;
  }
};

// Rows of grad_weight that hold P of all positions until they are written.
struct WeightRoom {
  std::int64_t row = 0;        // bytes; 0: they hold none
  std::int64_t positions = 0;  // of P

  // Where P of a chunk lies, in bytes: behind the rows that the chunk's own product writes.
  std::int64_t place(const HeadChunk& chunk) const {
    return ((chunk.column + chunk.columns) * row + kAligned - 1) / kAligned * kAligned;
  }

  // The largest chunk from `column` on whose P has room behind it; without columns: none has.
  HeadChunk chunk_from(std::int64_t column, const HeadSegments& segments) const {
    if (row == 0) return {};
    const std::int64_t vocab = segments.vocab;
    std::int64_t most = (vocab - column) * row / (row + positions * 2);
    for (;;) {
      HeadChunk chunk = segments.chunk_from(column, most);
      chunk.in_weight = true;
      if (chunk.columns > most) return {};
      if (place(chunk) + positions * p_stride(chunk.columns) * 2 <= vocab * row) return chunk;
      most = chunk.columns - 1;
    }
  }
};

}  // namespace samebits::cuda
