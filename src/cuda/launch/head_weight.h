// The parts of a head's gradient that are no product of an engine: X, the ends of grad_hidden, grad_weight and grad_bias.
#pragma once

#include <span>

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

// Entries of the rows by target that belong to a range of columns: those ahead of it, and the first column that finds no
// place among `SideRows::capacity` rows (the number of columns when all do).
struct ColumnEntries {
  std::uint32_t before;
  std::int32_t overflow;
};

// Where the totals of columns that are somebody's target wait for what their rows add. Row `run.first - before` of the
// first pass, that less `capacity` of the second one, and so on; without `entries` the row of the total itself.
struct SideRows {
  const ColumnEntries* entries = nullptr;  // of these columns
  std::uint32_t capacity = 0;
  int pass = 0;

  __device__ std::int64_t first_entry() const {
    return entries->before + static_cast<std::int64_t>(pass) * capacity;
  }
  // Negative for a column of the other pass.
  __device__ std::int64_t row(const IdRun& run, std::int64_t column) const {
    if (entries == nullptr) return column;
    const std::int64_t row = static_cast<std::int64_t>(run.first) - first_entry();
    return row < static_cast<std::int64_t>(capacity) ? row : -1;
  }
};

// The end of grad_weight inside of an engine: columns that are nobody's target are finished, the others left in the total.
struct WeightFinish {
  void* out =
      nullptr;  // grad_weight's row of the task's first column, of the operands' type, or float to add to
  std::int64_t stride = 0;
  bool accumulate = false;
  const HeadScalars* scalars = nullptr;
  const IdRun* run = nullptr;  // of the task's first column
  SideRows side = {};
};

// Columns of grad_weight that one call of add_weight finishes.
inline constexpr std::int64_t kFinishedColumns = order::kSegment;
// Side rows of a call, where P is held too: half of what 8192 rows can need, so that two passes are enough.
inline constexpr std::int64_t kSideRows = order::kSegment / 2;

// `entries` of the columns from each of `begins`, ascending, to the next, and to `vocab` at the end.
void find_column_entries(const TargetRuns& targets, std::span<const std::int32_t> begins, std::int64_t vocab,
                         std::int64_t side_rows, ColumnEntries* entries, const core::DeviceCall& call);

// X of a range; in binary64 hidden itself.
template <class Row>
void fill_head_x(const core::LinearLogpProblem& head, const HeadGradientRows<Row>& at,
                 const PositionRange& range, void* x, const core::DeviceCall& call);

// Every row of grad_hidden from N.
template <class Row>
void finish_head_hidden(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                        const std::int64_t* counts, const core::DeviceCall& call);

// Sums the long runs; before the two below are called.
void sum_long_targets(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                      const TargetRuns& targets, const core::DeviceCall& call);

// Whether an engine may write grad_weight two elements at a time.
bool even_rows(const core::LinearLogpGradient& problem);

// Rows [first, first + rows) of grad_weight from their total; with `side` those alone that an engine left.
template <class Row>
void finish_head_weight(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                        const TargetRuns& targets, const typename Row::Real* total, std::int64_t first,
                        std::int64_t rows, const SideRows* side, const core::DeviceCall& call);

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
