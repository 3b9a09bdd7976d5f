// The scratch of a head's gradient.
#pragma once

#include "cuda/launch/head_split.h"

namespace samebits::cuda {

template <class Row>
struct HeadBuffers {
  using Real = typename Row::Real;

  HeadGradientRows<Row> rows;
  TargetRuns targets = {};
  Real* logit = nullptr;   // [positions]: of the target
  void* hidden = nullptr;  // [split.gathered, stride], where they do not lie in grad_weight
  void* x = nullptr;  // [positions or split.rows, stride]; where it is not held, the same memory as hidden
  void* p = nullptr;  // [split.p_elements()]; null when all of P is saved
  std::int64_t* counts = nullptr;  // [positions, H]; null when the sums are held
  float* sums = nullptr;           // [split.held_segments, positions, H]
  Real* total = nullptr;           // [split.total]: [columns, H], or what an engine keeps there
  Real *bias_partial = nullptr, *bias_total = nullptr;
  void* engine = nullptr;

  HeadBuffers(const core::LinearLogpGradient& problem, const HeadSplit& split, const HeadShape& shape,
              const HeadEngine& by, Pieces& pieces)
      : rows(problem.head.logp, split.positions, pieces) {
    const std::int64_t all = split.positions, size = problem.head.hidden_size;
    const std::int64_t stored = dtype_size(stored_dtype(shape)), stride = gathered_stride(size);
    const bool weight = problem.grad_weight != nullptr;
    const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    pieces.take(logit, all);
    const std::int64_t hidden_bytes = split.holds_p() && !split.hidden_in_weight
                                          ? gathered_room(split.gathered) * stride * dtype_size(shape.dtype)
                                          : 0;
    const std::int64_t x_bytes = weight && !split.x_in_gradient ? split.rows * stride * stored : 0;
    hidden = pieces.take_bytes(bytes(split.holds_x() ? hidden_bytes : std::max(hidden_bytes, x_bytes)));
    x = split.x_in_gradient ? problem.grad_hidden.data
        : split.one_range   ? pieces.take_bytes(bytes(x_bytes))
                            : hidden;
    if (split.holds_p()) p = pieces.take_bytes(bytes(split.p_elements() * stored));
    if (split.held_segments > 0)
      pieces.take(sums, split.held_segments * all * size);
    else if (problem.grad_hidden)
      pieces.take(counts, all * size);
    if (weight) pieces.take(total, split.total);
    if (problem.grad_bias != nullptr) {
      pieces.take(bias_partial, kBiasSegments<Row> * split.most_columns);
      pieces.take(bias_total, split.most_columns);
    }
    if (sizeof(Real) == 4 && weight)
      targets.long_weight = pieces.take_bytes(TargetRuns::weight_bytes(all, size));
    if (sizeof(Real) == 4 && problem.grad_bias != nullptr)
      targets.long_bias = pieces.take_bytes(TargetRuns::bias_bytes(all));
    engine = pieces.take_bytes(by.scratch_bytes(split.rows));
  }
};

}  // namespace samebits::cuda
