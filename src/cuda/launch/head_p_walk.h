// P in the walk of a head's gradient, what the forward pass kept of it and what is computed, and its products with weight.
#pragma once

#include "cuda/launch/head_buffers.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/product_tiles.h"

namespace samebits::cuda {

template <class Row>
class HeadPWalk {
 public:
  HeadPWalk(const core::LinearLogpGradient& problem, HeadEngine& engine, const core::DeviceCall& call,
            const HeadShape& shape, const HeadSplit& split, const HeadBuffers<Row>& at)
      : problem_(problem), engine_(engine), call_(call), shape_(shape), split_(split), at_(at) {}

  // What saved positions give to grad_hidden: of all columns at a time.
  void add_saved_hidden() {
    const HeadChunk all = split_.segments.all();
    in_ranges(split_.saved, split_.rows, [&](std::int64_t first, std::int64_t rows) {
      add_hidden(all, {first, rows, at_.rows.list.count}, saved_p(all, first));
    });
  }

  // Whether the last kernel of find() is that of grad_hidden.
  bool ends_with_hidden(const PositionRange& range) const {
    return problem_.grad_hidden && range.rows > 0 && split_.saved <= range.first;
  }

  // What positions that are not saved give to grad_hidden, where its P is apart.
  void add_hidden_apart(const HeadChunk& chunk) {
    if (!problem_.grad_hidden) return;
    in_ranges(split_.positions - split_.saved, kApartRows, [&](std::int64_t first, std::int64_t rows) {
      const PositionRange range{split_.saved + first, rows, at_.rows.list.count};
      fill_p(chunk, range, 0);
      add_hidden(chunk, range, p_of(chunk));
    });
  }

  // P of a chunk and a range. Positions that are not saved give their part of grad_hidden, unless it has all of it: `again`.
  PColumns find(const HeadChunk& chunk, const PositionRange& range, bool again = false) {
    const std::int64_t saved = std::clamp<std::int64_t>(split_.saved - range.first, 0, range.rows);
    if (saved > 0 && saved == range.rows) return saved_p(chunk, range.first);
    const PositionRange rest{range.first + saved, range.rows - saved, range.count};
    fill_p(chunk, rest, saved);
    if (!again) add_hidden(chunk, rest, {p_row(chunk, saved), stride_of(chunk), chunk.column, chunk.columns});
    if (problem_.grad_weight != nullptr || problem_.grad_bias != nullptr)
      copy_saved(chunk, {range.first, saved, range.count});
    return p_of(chunk);
  }

 private:
  std::size_t bytes_of(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * dtype_size(stored_dtype(shape_)));
  }
  std::int64_t stride_of(const HeadChunk& chunk) const {
    return p_stride(split_.apart || chunk.in_weight ? chunk.columns : split_.columns);
  }
  void* p_row(const HeadChunk& chunk, std::int64_t row) const {
    void* const in = chunk.in_weight ? problem_.grad_weight : at_.p;
    const std::int64_t place = chunk.in_weight ? split_.weight_room.place(chunk) : 0;
    return static_cast<std::byte*>(in) + place + bytes_of(row * stride_of(chunk));
  }
  PColumns p_of(const HeadChunk& chunk) const {
    return {p_row(chunk, 0), stride_of(chunk), chunk.column, chunk.columns};
  }
  PColumns saved_p(const HeadChunk& chunk, std::int64_t position) const {
    const core::SavedP<const void>& saved = problem_.saved;
    return {element_at(saved.data, stored_dtype(shape_), position * saved.stride + chunk.column),
            saved.stride, chunk.column, chunk.columns};
  }

  // The saved rows of a range, ahead of those that are computed.
  void copy_saved(const HeadChunk& chunk, const PositionRange& range) {
    if (range.rows == 0) return;
    const PColumns from = saved_p(chunk, range.first);
    check(cudaMemcpy2DAsync(p_row(chunk, 0), bytes_of(stride_of(chunk)), from.p, bytes_of(from.p_stride),
                            bytes_of(chunk.columns), static_cast<std::size_t>(range.rows),
                            cudaMemcpyDeviceToDevice, stream_of(call_)),
          "copy_saved");
  }

  // Where hidden states of a range are gathered, and how many at a time.
  GatheredRows place_of_hidden(const HeadChunk& chunk, std::int64_t rows) const {
    const std::int64_t stride = gathered_stride(problem_.head.hidden_size);
    if (chunk.in_weight && (split_.hidden_in_weight || !split_.one_range))
      return {at_.p, stride, split_.p_elements() / stride / 128 * 128};
    if (!split_.hidden_in_weight) return {at_.hidden, stride, gathered_room(split_.gathered)};
    const std::int64_t vocab = problem_.head.logp.vocab, first = first_free_row(vocab, chunk.column, rows);
    return {element_at(problem_.grad_weight, shape_.dtype, first * stride), stride,
            (vocab - first) / 128 * 128};
  }

  // P of a range, from row `row` of the buffer on.
  void fill_p(const HeadChunk& chunk, const PositionRange& range, std::int64_t row) {
    const GatheredRows hidden = place_of_hidden(chunk, range.rows);
    const bool all = (split_.one_range && !split_.apart) || chunk.in_weight;  // positions of P
    in_ranges(range.rows, hidden.room, [&](std::int64_t first, std::int64_t rows) {
      const PositionRange part{range.first + first, rows, range.count};
      // Hidden states of all positions stay, where there is room for them. Others are gathered while the kernel ahead still
      // runs: it began when the last P was there, and with it the last use of what is overwritten, unless P lay there.
      if (!all || range.rows > hidden.room || hidden.data != held_)
        gather_hidden(problem_.head, at_.rows.list, part, const_cast<void*>(hidden.data), call_,
                      held_ != nullptr && first == 0 && split_.holds_x() && chunk.in_weight == p_in_weight_);
      p_in_weight_ = chunk.in_weight;
      held_ = hidden.data;
      PTask task{part, hidden, chunk.column, chunk.columns};
      task.inverse_tau = static_cast<const float*>(at_.rows.list.inverse_tau);
      task.target = at_.rows.list.target;
      task.rows = at_.rows.form;
      task.sloped = bool{problem_.head.logp.grad_entropy};
      task.p = p_row(chunk, row + first);
      task.p_stride = stride_of(chunk);
      engine_.fill_p(task, call_);
    });
  }

  void add_hidden(const HeadChunk& chunk, const PositionRange& range, const PColumns& p) {
    if (!problem_.grad_hidden || range.rows == 0) return;
    HiddenTask task;
    task.range = range;
    task.column = chunk.column;
    task.columns = chunk.columns;
    task.segments = chunk.segments;
    task.p = p.p;
    task.p_stride = p.p_stride;
    task.exponent = at_.rows.exponent;
    task.nan_row = at_.rows.nan_row;
    task.counts = at_.counts;
    if (split_.held_segments > 0) {
      task.sums_stride = split_.positions * problem_.head.hidden_size;
      task.sums = at_.sums + chunk.segment * task.sums_stride;
      task.largest = &at_.rows.scalars->largest_weight;
    }
    engine_.add_hidden(task, call_);
  }

  const core::LinearLogpGradient& problem_;
  HeadEngine& engine_;
  const core::DeviceCall& call_;
  const HeadShape& shape_;
  const HeadSplit& split_;
  const HeadBuffers<Row>& at_;
  const void* held_ = nullptr;  // where hidden states lie
  bool p_in_weight_ = false;    // the last one
};

}  // namespace samebits::cuda
