// The parts of a head's gradient that are no product of an engine: X, the ends of grad_hidden, grad_weight and grad_bias.
#pragma once

#include "cuda/kernel/id_order.h"
#include "cuda/kernel/segment_sum.cuh"
#include "cuda/launch/head_gradient.h"
#include "order/dot.h"

namespace samebits::cuda {

// The columns of the head that a step works on, and their P.
struct PColumns {
  const void* p = nullptr;
  std::int64_t p_stride = 0;
  std::int64_t column = 0, columns = 0;
};

// Rows by target, for C. Empty in binary64, where P holds the target's column.
struct TargetRuns {
  IdRuns runs = {};
  void *long_weight = nullptr, *long_bias = nullptr;  // sums of long runs, of H columns and of one

  static std::size_t weight_bytes(std::int64_t capacity, std::int64_t size);
  static std::size_t bias_bytes(std::int64_t capacity);
};

// The end of grad_weight inside of an engine.
struct WeightFinish {
  void* out =
      nullptr;  // grad_weight's row of the task's first column, of the operands' type, or float to add to
  std::int64_t stride = 0;
  bool accumulate = false;
  bool out_in_chunks = false;  // of 16 bytes, aligned to them
  std::int64_t column = 0;     // the task's first one
  const HeadScalars* scalars = nullptr;
  // Of what rows add to the columns that are their targets.
  const IdRun* run = nullptr;  // of the task's first column
  IdOrder order = {};
  LongRuns<float> long_runs = {};
  core::RowArray<const void> hidden = {};
  std::int64_t hidden_stride = 1;
  bool hidden_in_pairs = false;       // of elements, aligned to them
  bool hidden_in_chunks = false;      // of 16 bytes
  const std::int32_t* row = nullptr;  // by position
  const float* y = nullptr;           // by position
};

// Columns of grad_weight of which the total is held, where an engine does not finish them.
inline constexpr std::int64_t kFinishedColumns = order::kSegment;

// X of a range; in binary64 hidden itself.
template <class Row>
void fill_head_x(const core::LinearLogpProblem& head, const HeadGradientRows<Row>& at,
                 const PositionRange& range, void* x, const core::DeviceCall& call);

// Every row of grad_hidden from N.
template <class Row>
void finish_head_hidden(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                        const std::int64_t* counts, const core::DeviceCall& call);

// The same from sums that are held. `beside_kernel_ahead`: that one waited itself for all that this one depends on.
void finish_held_hidden(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                        const HeldSums& sums, bool beside_kernel_ahead, const core::DeviceCall& call);

// Sums the long runs; before the two below are called.
void sum_long_targets(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                      const TargetRuns& targets, const core::DeviceCall& call);

// Whether an engine may write grad_weight two elements at a time.
bool even_rows(const core::LinearLogpGradient& problem);

// Rows [first, first + rows) of grad_weight from their total.
template <class Row>
void finish_head_weight(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                        const TargetRuns& targets, const typename Row::Real* total, std::int64_t first,
                        std::int64_t rows, const core::DeviceCall& call);
// How an engine finishes the columns from `column` on, of 16-bit operands.
WeightFinish weight_finish(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                           const TargetRuns& targets, std::int64_t column);

// The end of the rows of grad_weight that are targets, of `columns` columns of the head, where an engine kept their totals in
// fp32: those of the run that begins at entry i of the order at kept[i * size]. Of rows in chunks of 16 bytes.
void finish_target_rows(const WeightFinish& finish, DType dtype, const float* kept, std::int64_t positions,
                        std::int64_t columns, std::int64_t size, const core::DeviceCall& call);

// Segments of rows of grad_bias that one range may have.
template <class Row>
inline constexpr std::int64_t kBiasSegments = sizeof(typename Row::Real) == 4 ? 8 : 1;

// Adds a range of at most 8192 rows to the total, which the first one starts. `partial` is [kBiasSegments, columns].
template <class Row>
void add_head_bias(const core::LinearLogpProblem& head, const HeadGradientRows<Row>& at,
                   const PositionRange& range, const PColumns& from, typename Row::Real* partial,
                   typename Row::Real* total, const core::DeviceCall& call);
template <class Row>
void finish_head_bias(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                      const TargetRuns& targets, const PColumns& from, const typename Row::Real* total,
                      const core::DeviceCall& call);

// +0 in the rows of grad_weight (unless it is an accumulator) and grad_bias beyond the vocabulary.
void clear_head_padding(const core::LinearLogpGradient& problem, const core::DeviceCall& call);

}  // namespace samebits::cuda
