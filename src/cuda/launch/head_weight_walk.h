// grad_weight in the walk of a head's gradient: products of P and X into totals, and their end. Beside it, grad_bias.
#pragma once

#include "cuda/launch/head_buffers.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/product_tiles.h"

namespace samebits::cuda {

template <class Row>
class HeadWeightWalk {
 public:
  HeadWeightWalk(const core::LinearLogpGradient& problem, HeadEngine& engine, const core::DeviceCall& call,
                 const HeadShape& shape, const HeadSplit& split, const HeadBuffers<Row>& at)
      : problem_(problem), engine_(engine), call_(call), shape_(shape), split_(split), at_(at) {}

  // With the last range the columns are finished. `x` is that of the range. `beside_hidden`: the kernel ahead is the one
  // that added the same P to grad_hidden. `in_one`: all columns are, by one product.
  void add(const PColumns& columns, const void* x, const PositionRange& range, bool beside_hidden,
           bool in_one) {
    const bool last = range.first + range.rows == split_.positions;
    const std::int64_t at_a_time = in_one ? columns.columns : split_.weight_columns;
    in_ranges(columns.columns, at_a_time, [&](std::int64_t first, std::int64_t count) {
      WeightTask task;
      task.range = range;
      task.column = columns.column + first;
      task.columns = count;
      task.p = element_at(columns.p, stored_dtype(shape_), first);
      task.p_stride = columns.p_stride;
      task.x = x;
      task.x_stride = gathered_stride(problem_.head.hidden_size);
      task.total = reinterpret_cast<float*>(at_.total);
      task.beside_hidden = beside_hidden && first == 0;
      const bool by_engine = last && range.rows > 0 && split_.engine_finishes;
      WeightFinish finish;
      if constexpr (sizeof(typename Row::Real) == 4)
        if (by_engine) {
          finish = weight_finish(problem_, at_.rows, at_.targets, task.column);
          task.finish = &finish;
        }
      if (range.rows > 0) engine_.add_weight(task, call_);
      if (last && !by_engine)
        finish_head_weight<Row>(problem_, at_.rows, at_.targets, at_.total, task.column, count, call_);
      ends_small_ = by_engine && engine_.ends_small();
    });
  }

  void add_bias(const PColumns& columns, const PositionRange& range) {
    if (problem_.grad_bias == nullptr) return;
    in_ranges(std::max<std::int64_t>(range.rows, 1), order::kSegment, [&](std::int64_t first, std::int64_t) {
      PColumns from = columns;
      from.p = element_at(columns.p, stored_dtype(shape_), first * columns.p_stride);
      add_head_bias<Row>(problem_.head, at_.rows,
                         {range.first + first, std::min(range.rows - first, order::kSegment), range.count},
                         from, at_.bias_partial, at_.bias_total, call_);
    });
  }
  void finish_bias(const HeadChunk& columns) {
    if (problem_.grad_bias != nullptr)
      finish_head_bias<Row>(problem_, at_.rows, at_.targets, {nullptr, 0, columns.column, columns.columns},
                            at_.bias_total, call_);
  }

  // Whether others may run beside the last kernel.
  bool ends_small() const { return ends_small_; }

 private:
  const core::LinearLogpGradient& problem_;
  HeadEngine& engine_;
  const core::DeviceCall& call_;
  const HeadShape& shape_;
  const HeadSplit& split_;
  const HeadBuffers<Row>& at_;
  bool ends_small_ = false;
};

}  // namespace samebits::cuda
