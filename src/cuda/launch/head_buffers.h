// How a head's gradient is cut up, and its scratch. Segments of the two products are the contract's; the rest is free.
#pragma once

#include "cuda/launch/head_generic.h"
#include "cuda/launch/head_weight.h"
#include "order/dot.h"

namespace samebits::cuda {

// Of P, hidden, X, the total and what the engine takes, where one range is enough.
inline constexpr std::int64_t kWalkBytes = std::int64_t{252} << 20;

struct HeadSplit {
  std::int64_t rows;            // positions of P held at a time
  std::int64_t slice, columns;  // of the vocabulary between segments anchored anew, and of P held at a time
  std::int64_t weight_columns;  // of P whose total is held at a time
  bool one_range;               // all positions fit

  HeadSplit(const core::LinearLogpGradient& problem, const HeadShape& shape, const HeadEngine& engine) {
    const std::int64_t vocab = problem.head.logp.vocab, all = problem.head.logp.rows;
    one_range = all <= order::kSegment;
    rows = std::min(all, order::kSegment);
    slice = !shape.binary64 && problem.grad_hidden ? order::slice_columns(vocab) : vocab;
    columns = std::min(slice, order::kSegment);
    // With one range a total is finished as soon as it is there, so it need not hold all columns.
    weight_columns = columns;
    const std::int64_t stored = dtype_size(stored_dtype(shape)), size = problem.head.hidden_size;
    const std::int64_t held = rows * (columns * stored + size * (stored + dtype_size(shape.dtype))) +
                              static_cast<std::int64_t>(engine.scratch_bytes(rows));
    // 3584 columns of Nemotron's width are three full waves of 132 multiprocessors.
    for (const std::int64_t fewer : {3584, 1792, 1024})
      if (one_range && held + weight_columns * size * (shape.binary64 ? 8 : 4) > kWalkBytes)
        weight_columns = std::min(weight_columns, fewer);
  }
};

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
  Real* total = nullptr;           // [split.weight_columns, H]
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
    const std::int64_t hidden_bytes = split.rows * stride * dtype_size(shape.dtype);
    const std::int64_t x_bytes = weight ? split.rows * stride * stored : 0;
    hidden = pieces.take_bytes(bytes(split.one_range ? hidden_bytes : std::max(hidden_bytes, x_bytes)));
    x = split.one_range ? pieces.take_bytes(bytes(x_bytes)) : hidden;
    p_stride = (split.columns + 127) / 128 * 128;
    p = pieces.take_bytes(bytes(split.rows * p_stride * stored));
    if (problem.grad_hidden) pieces.take(counts, all * size);
    if (weight) pieces.take(total, split.weight_columns * size);
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
