// Rows of saved P that were measured against z of their target before the maximum was known, and have to be filled again.
// CONTRACT section 4, points 1 and 2.
#pragma once

#include "cuda/kernel/gather_row.cuh"
#include "cuda/kernel/head_gradient_row.cuh"
#include "cuda/launch/head_saved.h"

namespace samebits::cuda {

// Whether P of a row could not be measured against z of its target.
__device__ __forceinline__ bool is_late(float largest, float z) {
  return order::classify(largest) != order::RowClass::kFinite || !(largest - z <= order::kTargetReach);
}

// A position as number `to` of the late rows.
__device__ __forceinline__ void list_late_row(const HeadRows& list, const LateRows& late, std::int64_t to,
                                              std::int64_t position, float largest, float z) {
  late.list.row[to] = list.row[position];
  late.list.target[to] = list.target[position];
  if (list.inverse_tau != nullptr)
    static_cast<float*>(late.list.inverse_tau)[to] = static_cast<const float*>(list.inverse_tau)[position];
  order::PRow form{};
  form.kind = order::classify(largest);
  form.max = largest;
  if (form.kind == order::RowClass::kFinite)
    form.reference = order::reference_of(order::Reference::kTarget, {largest, 0, 0}, z);
  late.form[to] = form;
}

// The end of a row in a chunk of few, by a warp: row i of the chunk is listed if it is late, and its hidden states gathered.
__device__ __forceinline__ void meet_late_row(const LateListing& to, const HeadRows& list, std::int64_t i,
                                              std::int64_t position, float largest) {
  if (to.reference == nullptr || i >= to.rows) return;
  const float z = to.reference[position];
  if (!is_late(largest, z)) return;
  const LateRows& late = to.late;
  int number = 0;
  if (threadIdx.x % 32 == 0) {
    number = atomicAdd(late.list.count, 1);
    late.to[number] = static_cast<std::int32_t>(i);
    list_late_row(list, late, number, position, largest, z);
  }
  number = __shfl_sync(kWarp, number, 0);
  gather_row(to.hidden.template at<std::uint16_t>(list.row[position]), to.hidden_stride, to.size,
             to.gathered + number * to.gathered_stride, to.gathered_stride);
}

}  // namespace samebits::cuda
