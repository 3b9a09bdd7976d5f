// Sums over the positions with one id: ascending, in segments of 1024, each from +0 and added from +0. CONTRACT section 5.
//
// What is added is told by a `Terms`:
//   using Real = ...;                  the type sums are made in
//   using Values = ...;                what a position gives to kWidth columns, as loaded
//   static constexpr int kWidth = ...;
//   static constexpr int kAhead = ...; positions that are loaded at once
//   Values load(std::int64_t position, std::int64_t column) const;
//   static void add(const Values&, Real (&sum)[kWidth]);  one rounded step for each column
//   std::int64_t at(std::int64_t column, int i) const;    which column is its i-th; without it: column + i
#pragma once

#include "cuda/kernel/id_order.h"
#include "cuda/prim/kernel_order.cuh"
#include "order/p_form.h"

namespace samebits::cuda {

inline constexpr std::uint32_t kSumSegment = order::kOccurrences;
inline constexpr int kSumThreads = 128;

// A run of more than kWindow positions is long: its segments, one or more, are summed by CTAs of their own, into `partial`.
//
// The entries are cut into windows of kWindow. At most two segments of long runs begin in a window, and of two the first
// one belongs to a run that began before the window, the other one is the first of its run. So a segment's row in
// `partial` is twice its window, plus one when it is the first of its run.
inline constexpr std::uint32_t kWindow = 128;
static_assert(kWindow <= kSumSegment);

template <class Real>
struct LongRuns {
  Real* partial = nullptr;  // [long_rows, stride]
  std::int64_t stride = 0;  // columns
};

__host__ __device__ constexpr std::int64_t long_rows(std::int64_t capacity) {
  return capacity <= kWindow ? 0 : 2 * ((capacity + kWindow - 1) / kWindow);
}

__device__ __forceinline__ std::int64_t long_row(std::uint32_t first, bool first_of_run) {
  return 2 * static_cast<std::int64_t>(first / kWindow) + (first_of_run ? 1 : 0);
}

__device__ __forceinline__ bool is_long(IdRun run) { return run.end - run.first > kWindow; }

// One segment: `count` positions.
template <class Terms>
__device__ __forceinline__ void sum_segment(const Terms& terms, const std::int32_t* position,
                                            std::uint32_t count, std::int64_t column,
                                            typename Terms::Real (&sum)[Terms::kWidth]) {
  constexpr int kAhead = Terms::kAhead;
#pragma unroll
  for (auto& value : sum) value = 0;
  std::uint32_t i = 0;
  for (; i + kAhead <= count; i += kAhead) {
    typename Terms::Values values[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) values[a] = terms.load(position[i + a], column);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) Terms::add(values[a], sum);
  }
  for (; i < count; ++i) Terms::add(terms.load(position[i], column), sum);
}

// The whole sum of an id that occurs. `column` begins Terms::kWidth columns.
template <class Terms>
__device__ __forceinline__ void sum_run(const Terms& terms, const std::int32_t* position, IdRun run,
                                        const LongRuns<typename Terms::Real>& long_runs, std::int64_t column,
                                        typename Terms::Real (&total)[Terms::kWidth]) {
  using Real = typename Terms::Real;
  if (!is_long(run)) {
    sum_segment(terms, position + run.first, run.end - run.first, column, total);
#pragma unroll
    for (auto& value : total) value = Real(0) + value;  // a chain of fma may end in -0
    return;
  }
#pragma unroll
  for (auto& value : total) value = 0;
  for (std::uint32_t first = run.first; first < run.end; first += kSumSegment) {
    const Real* sum = long_runs.partial + long_row(first, first == run.first) * long_runs.stride;
#pragma unroll
    for (int i = 0; i < Terms::kWidth; ++i) {
      if constexpr (requires { terms.at(column, i); })
        total[i] = total[i] + sum[terms.at(column, i)];
      else
        total[i] = total[i] + sum[column + i];
    }
  }
}

// The segment whose sum is row `row` of `partial`; empty where there is none.
__device__ __forceinline__ IdRun long_segment(const IdRuns& runs, std::int64_t row) {
  const std::int64_t window = row / 2 * kWindow;
  const bool first_of_run = row % 2 != 0;
  // A long run that begins in the window covers the first entry of the next one.
  const std::int64_t inside = window + (first_of_run ? kWindow : 0);
  if (inside >= runs.capacity || runs.order.id[inside] == kNoId) return {};
  const IdRun run = runs.run[runs.order.id[inside]];
  const auto begin = static_cast<std::uint32_t>(window);
  if (!is_long(run)) return {};
  std::uint32_t first = run.first;
  if (first_of_run) {
    if (first < begin || first >= inside) return {};
  } else {
    if (first >= begin) return {};
    first += (begin - first + kSumSegment - 1) / kSumSegment * kSumSegment;
    if (first - begin >= kWindow || first >= run.end) return {};
  }
  return {first, min(first + kSumSegment, run.end)};
}

// CTAs (row of `partial`, part of the columns), part fastest; `parts` * kSumThreads * Terms::kWidth covers `columns`, a
// multiple of the width.
template <class Terms>
__global__ void __launch_bounds__(kSumThreads)
    sum_long_runs(const __grid_constant__ Terms terms, const __grid_constant__ IdRuns runs,
                  const LongRuns<typename Terms::Real> long_runs, std::int64_t columns, std::int64_t parts,
                  std::int64_t first_row) {
  follow_kernel_ahead();
  const std::int64_t row = first_row + blockIdx.x / parts;
  const std::int64_t column = (blockIdx.x % parts * kSumThreads + threadIdx.x) * Terms::kWidth;
  const IdRun segment = long_segment(runs, row);
  if (segment.first == segment.end) return;
  const std::uint32_t count = segment.end - segment.first;
  __shared__ std::int32_t position[kSumSegment];
  for (std::uint32_t i = threadIdx.x; i < count; i += kSumThreads)
    position[i] = runs.order.position[segment.first + i];
  __syncthreads();
  if (column >= columns) return;
  typename Terms::Real sum[Terms::kWidth];
  sum_segment(terms, position, count, column, sum);
  typename Terms::Real* to = long_runs.partial + row * long_runs.stride + column;
#pragma unroll
  for (int i = 0; i < Terms::kWidth; ++i) to[i] = sum[i];
}

}  // namespace samebits::cuda
