// How a head's gradient is cut up, and its scratch. Segments of the two products are the contract's; the rest is free.
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

// Columns of P held at a time: whole segments, counted from `column`.
struct HeadChunk {
  std::int64_t column = 0, columns = 0;
  std::vector<Segment> segments;
};

struct HeadSplit {
  std::int64_t rows;            // positions of P held at a time
  std::int64_t slice, segment;  // of the vocabulary: where segments are anchored anew, and their length
  std::int64_t columns;         // of P held at a time: whole segments
  std::int64_t weight_columns;  // of P that add_weight is given at a time
  std::int64_t total_rows;      // of the totals held at a time
  bool one_range;               // all positions fit
  bool engine_finishes;         // grad_weight, but for columns that are somebody's target

  HeadSplit(const core::LinearLogpGradient& problem, const HeadShape& shape, const HeadEngine& engine) {
    const std::int64_t vocab = problem.head.logp.vocab, all = problem.head.logp.rows;
    const std::int64_t stored = dtype_size(stored_dtype(shape)), size = problem.head.hidden_size;
    one_range = all <= order::kSegment;
    rows = std::min(all, order::kSegment);
    slice = !shape.binary64 && problem.grad_hidden ? order::slice_columns(vocab) : vocab;
    segment = std::min(slice, order::kSegment);
    // With fewer rows more columns, so that the products stay large.
    columns = segment;
    if (one_range)
      columns =
          std::clamp(kPBytes / (std::max<std::int64_t>(rows, 1) * stored), segment, std::max(segment, vocab));
    engine_finishes = all > 0 && engine.finishes_weight() && even_rows(problem);
    total_rows = weight_columns = std::min(columns, kFinishedColumns);
    if (one_range && engine_finishes) {
      total_rows = std::min(all, kSideRows);
      return;
    }
    // With one range a total is finished as soon as it is there, so it need not hold all columns.
    const std::int64_t held = rows * (columns * stored + size * (stored + dtype_size(shape.dtype))) +
                              static_cast<std::int64_t>(engine.scratch_bytes(rows));
    // 3584 columns of Nemotron's width are three full waves of 132 multiprocessors.
    for (const std::int64_t fewer : {3584, 1792, 1024})
      if (one_range && held + weight_columns * size * (shape.binary64 ? 8 : 4) > kWalkBytes)
        weight_columns = std::min(weight_columns, fewer);
    total_rows = weight_columns;
  }

  std::vector<HeadChunk> chunks(std::int64_t vocab) const {
    std::vector<HeadChunk> all(1);
    for (std::int64_t begin = 0; begin < vocab; begin += slice) {
      const std::int64_t end = std::min(begin + slice, vocab);
      for (std::int64_t first = begin; first < end; first += segment) {
        const std::int64_t count = std::min(segment, end - first);
        if (all.back().columns + count > columns) all.push_back({first, 0, {}});
        HeadChunk& chunk = all.back();
        chunk.segments.push_back(
            {static_cast<std::int32_t>(chunk.columns), static_cast<std::int32_t>(count)});
        chunk.columns += count;
      }
    }
    return all;
  }
};

// Calls of add_weight over all columns.
inline std::int64_t column_calls(std::int64_t vocab, const HeadSplit& split) {
  std::int64_t calls = 0;
  for (const HeadChunk& chunk : split.chunks(vocab))
    calls += (chunk.columns + split.weight_columns - 1) / split.weight_columns;
  return calls;
}

template <class Row>
struct HeadBuffers {
  using Real = typename Row::Real;

  HeadGradientRows<Row> rows;
  TargetRuns targets = {};
  Real* logit = nullptr;   // [positions]: of the target
  void* hidden = nullptr;  // [split.rows, stride]
  void* x = nullptr;       // alike; where there are several ranges it is the same memory
  void* p = nullptr;       // [split.rows, p_stride]
  std::int64_t p_stride = 0;
  std::int64_t* counts = nullptr;  // [positions, H]
  Real* total = nullptr;           // [split.total_rows, H]
  ColumnEntries* entries = nullptr;
  Real *bias_partial = nullptr, *bias_total = nullptr;
  void* engine = nullptr;

  HeadBuffers(const core::LinearLogpGradient& problem, const HeadSplit& split, const HeadShape& shape,
              const HeadEngine& by, Pieces& pieces)
      : rows(problem.head.logp, pieces) {
    const std::int64_t all = problem.head.logp.rows, size = problem.head.hidden_size;
    const std::int64_t stored = dtype_size(stored_dtype(shape)), stride = gathered_stride(size);
    const bool weight = problem.grad_weight != nullptr;
    const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    pieces.take(logit, all);
    const std::int64_t hidden_bytes = gathered_room(split.rows) * stride * dtype_size(shape.dtype);
    const std::int64_t x_bytes = weight ? split.rows * stride * stored : 0;
    hidden = pieces.take_bytes(bytes(split.one_range ? hidden_bytes : std::max(hidden_bytes, x_bytes)));
    x = split.one_range ? pieces.take_bytes(bytes(x_bytes)) : hidden;
    p_stride = (split.columns + 127) / 128 * 128;
    p = pieces.take_bytes(bytes(split.rows * p_stride * stored));
    if (problem.grad_hidden) pieces.take(counts, all * size);
    if (weight) pieces.take(total, split.total_rows * size);
    if (weight && split.engine_finishes) pieces.take(entries, column_calls(shape.vocab, split));
    if (problem.grad_bias != nullptr) {
      pieces.take(bias_partial, kBiasSegments<Row> * split.columns);
      pieces.take(bias_total, split.columns);
    }
    if (sizeof(Real) == 4 && weight)
      targets.long_weight = pieces.take_bytes(TargetRuns::weight_bytes(all, size));
    if (sizeof(Real) == 4 && problem.grad_bias != nullptr)
      targets.long_bias = pieces.take_bytes(TargetRuns::bias_bytes(all));
    engine = pieces.take_bytes(by.scratch_bytes(split.rows));
  }
};

}  // namespace samebits::cuda
