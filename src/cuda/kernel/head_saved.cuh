// The rows of saved P that are filled behind their statistics.
#pragma once

#include "cuda/kernel/late_row.cuh"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

inline constexpr int kSavedThreads = 128;

// Rows of a range whose P is to be filled, their maxima being known: all, or with `late.to` those that block_stats could not
// measure against the right reference, in any order, behind the *late.list.count of before.
__global__ void __launch_bounds__(kSavedThreads)
    list_late_rows(const __grid_constant__ core::LogpProblem problem, const __grid_constant__ HeadRows list,
                   const PositionRange range, const float* reference, const __grid_constant__ LateRows late) {
  follow_kernel_ahead();
  const std::int64_t i = blockIdx.x * std::int64_t{kSavedThreads} + threadIdx.x;
  const std::int64_t position = range.first + i;
  const std::int64_t live =
      max(min(static_cast<std::int64_t>(*range.count) - range.first, range.rows), std::int64_t{0});
  const bool all = late.to == nullptr;
  if (all && i == 0) *late.list.count = static_cast<std::int32_t>(live);
  if (i >= live) return;
  const float largest = static_cast<const float*>(problem.row_max)[list.row[position]],
              z = reference[position];
  std::int64_t to = i;
  if (!all) {
    if (!is_late(largest, z)) return;
    to = atomicAdd(late.list.count, 1);
    late.to[to] = static_cast<std::int32_t>(i);
  }
  list_late_row(list, late, to, position, largest, z);
}

}  // namespace samebits::cuda
