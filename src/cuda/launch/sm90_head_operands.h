// The operands of a head as the kernels for SM90a take them, and the launches of its products.
#pragma once

#include "cuda/kernel/sm90_p.cuh"
#include "cuda/launch/head_engine.h"
#include "cuda/launch/sm90_product.h"

namespace samebits::cuda {

template <class T>
struct Sm90HeadOperands {
  HeadShape shape;
  Sm90Choices choices;

  const Sm90Choice& choice_of(Sm90Use use, const PositionRange& range) const {
    return *find_choice(choices, use, range.rows, shape.hidden_size);
  }

  HeadColumns<T> columns_of(std::int64_t column, std::int64_t columns) const {
    const T* bias = static_cast<const T*>(shape.bias);
    return {bias == nullptr ? nullptr : bias + column * shape.bias_stride, shape.bias_stride,
            static_cast<int>(columns)};
  }

  static HeadRowInputs inputs_of(const PositionRange& range, const float* inverse_tau,
                                 const std::int64_t* target) {
    return {inverse_tau == nullptr ? nullptr : inverse_tau + range.first, target + range.first};
  }

  // A tile is read whole where there is room: the copy engine is slow outside of a matrix.
  DenseMatrix gathered(const GatheredRows& hidden, const PositionRange& range) const {
    return {hidden.data, shape.dtype, shape.hidden_size,
            std::max(range.rows, std::min(hidden.room, std::int64_t{128})), hidden.stride};
  }

  // [columns, H], from `column` on.
  DenseMatrix weight_rows(std::int64_t column, std::int64_t columns) const {
    const core::Operand& weight = shape.weight;
    return {static_cast<const T*>(weight.data) + column * weight.row_stride, shape.dtype, shape.hidden_size,
            columns, weight.row_stride};
  }

  static ProductShape shape_of(const PositionRange& range, std::int64_t columns, std::int64_t depth) {
    ProductShape part;
    part.rows = static_cast<int>(range.rows);
    part.columns = static_cast<int>(columns);
    part.depth = static_cast<int>(depth);
    part.first = range.first;
    part.count = range.count;
    return part;
  }
};

// Of launches whose clusters keep pace (Pace in sm90_pace.cuh): a counter each, in memory that is used over and over.
class Sm90Counters {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 10;

  void use(void* memory) { counters_ = static_cast<std::uint32_t*>(memory), used_ = 0; }

  // One that is 0 when the next kernel of the stream begins.
  std::uint32_t* next(const core::DeviceCall& call) {
    constexpr std::size_t kWords = 8, kCount = kBytes / (kWords * sizeof(std::uint32_t));  // 32 bytes each
    const std::size_t number = used_++ % kCount;
    if (number == 0) check(cudaMemsetAsync(counters_, 0, kBytes, stream_of(call)), "counters");
    return counters_ + number * kWords;
  }

 private:
  std::uint32_t* counters_ = nullptr;
  std::size_t used_ = 0;
};

template <class T>
void sm90_block_stats(const Sm90HeadOperands<T>& head, const StatsTask& task, const core::DeviceCall& call);
template <class T>
void sm90_fill_p(const Sm90HeadOperands<T>& head, const PTask& task, const core::DeviceCall& call);
template <class T>
void sm90_add_hidden(const Sm90HeadOperands<T>& head, Sm90Counters& counters, const HiddenTask& task,
                     const core::DeviceCall& call);
// Whether it ends small.
template <class T>
bool sm90_add_weight(const Sm90HeadOperands<T>& head, Sm90Counters& counters, const WeightTask& task,
                     const core::DeviceCall& call);
// Elements of room that sm90_add_weight takes where one task is all of grad_weight.
std::int64_t sm90_finish_elements(std::int64_t rows, std::int64_t columns, std::int64_t size,
                                  std::int64_t multiprocessors);

}  // namespace samebits::cuda
