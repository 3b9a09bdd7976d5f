// grad_weight in the walk of a head's gradient: products of P and X into totals, and their end.
#pragma once

#include <vector>

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

  // Of every call of add_weight, in their order.
  void find_entries(const std::vector<HeadChunk>& chunks) {
    std::vector<std::int32_t> begins;
    for (const HeadChunk& chunk : chunks)
      in_ranges(chunk.columns, split_.weight_columns, [&](std::int64_t first, std::int64_t) {
        begins.push_back(static_cast<std::int32_t>(chunk.column + first));
      });
    find_column_entries(at_.targets, begins, problem_.head.logp.vocab, split_.total_rows, at_.entries, call_);
  }

  // With the last range the columns are finished. `x` is that of the range.
  void add(const PColumns& columns, const void* x, const PositionRange& range) {
    const bool last = range.first + range.rows == split_.positions;
    in_ranges(columns.columns, split_.weight_columns, [&](std::int64_t first, std::int64_t count) {
      WeightTask task;
      task.range = range;
      task.column = columns.column + first;
      task.columns = count;
      task.p = element_at(columns.p, stored_dtype(shape_), first);
      task.p_stride = columns.p_stride;
      task.x = x;
      task.x_stride = gathered_stride(problem_.head.hidden_size);
      task.total = reinterpret_cast<float*>(at_.total);
      if (range.rows == 0 || !last || !split_.engine_finishes) {
        if (range.rows > 0) engine_.add_weight(task, call_);
        if (last)
          finish_head_weight<Row>(problem_, at_.rows, at_.targets, at_.total, task.column, count, nullptr,
                                  call_);
      } else if constexpr (sizeof(typename Row::Real) == 4) {
        finish_by_engine(task);
      }
    });
  }

 private:
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
      finish.side.entries = at_.entries + calls_++;
      finish.side.capacity = static_cast<std::uint32_t>(split_.total_rows);
    }
    const int passes = split_.one_range
                           ? static_cast<int>((split_.positions + split_.total_rows - 1) / split_.total_rows)
                           : 1;
    for (; finish.side.pass < passes; ++finish.side.pass) {
      engine_.add_weight(task, call_);
      finish_head_weight<Row>(problem_, at_.rows, at_.targets, at_.total, task.column, task.columns,
                              &finish.side, call_);
    }
  }

  const core::LinearLogpGradient& problem_;
  HeadEngine& engine_;
  const core::DeviceCall& call_;
  const HeadShape& shape_;
  const HeadSplit& split_;
  const HeadBuffers<Row>& at_;
  std::int64_t calls_ = 0;  // of add_weight that finished
};

}  // namespace samebits::cuda
