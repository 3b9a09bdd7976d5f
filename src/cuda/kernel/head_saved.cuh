// P that the forward pass of a head keeps: what it is measured against, and the rows of it that are filled behind their
// statistics. CONTRACT section 4, points 1 and 2.
#pragma once

#include "cuda/kernel/head_gradient_row.cuh"
#include "cuda/launch/head_saved.h"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

inline constexpr int kSavedThreads = 128;

// z of the targets by position; `logit` is that of the target, without bias.
__global__ void __launch_bounds__(kSavedThreads)
    target_references(const __grid_constant__ core::LinearLogpProblem head,
                      const __grid_constant__ HeadRows list, const float* logit, float* reference) {
  follow_kernel_ahead();
  const std::int64_t position = blockIdx.x * std::int64_t{kSavedThreads} + threadIdx.x;
  if (position < *list.count) reference[position] = target_z(head, list, position, logit[position]);
}

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
  const std::int32_t row = list.row[position];
  const float largest = static_cast<const float*>(problem.row_max)[row], z = reference[position];
  const order::RowClass kind = order::classify(largest);
  std::int64_t to = i;
  if (!all) {
    if (kind == order::RowClass::kFinite && largest - z <= order::kTargetReach) return;
    to = atomicAdd(late.list.count, 1);
    late.to[to] = static_cast<std::int32_t>(i);
  }
  late.list.row[to] = row;
  late.list.target[to] = list.target[position];
  if (list.inverse_tau != nullptr)
    static_cast<float*>(late.list.inverse_tau)[to] = static_cast<const float*>(list.inverse_tau)[position];
  order::PRow form{};
  form.kind = kind;
  form.max = largest;
  if (kind == order::RowClass::kFinite)
    form.reference = order::reference_of(order::Reference::kTarget, {largest, 0, 0}, z);
  late.form[to] = form;
}

}  // namespace samebits::cuda
