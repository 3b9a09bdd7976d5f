// What comes before and after the sort of ids.
#pragma once

#include "cuda/kernel/id_order.h"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

inline constexpr int kIdThreads = 256;

// The keys that are sorted.
__global__ void list_ids(const __grid_constant__ IdList list, std::int64_t* id, std::int32_t* position) {
  follow_kernel_ahead();
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kIdThreads) + threadIdx.x;
  if (i >= list.capacity) return;
  std::int64_t key = kNoId;
  if (list.count == nullptr || i < *list.count) {
    const std::int64_t value =
        list.ids.dtype == DType::kInt32 ? *list.ids.at<std::int32_t>(i) : *list.ids.at<std::int64_t>(i);
    const bool skipped = list.has_skipped && value == list.skipped;
    if (value >= 0 && value < list.limit && !skipped) key = value;
  }
  id[i] = key;
  position[i] = static_cast<std::int32_t>(i);
}

__global__ void mark_runs(const IdOrder order, std::int64_t capacity, IdRun* run) {
  follow_kernel_ahead();
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kIdThreads) + threadIdx.x;
  if (i >= capacity || order.id[i] == kNoId) return;
  const std::int64_t id = order.id[i];
  if (i == 0 || order.id[i - 1] != id) run[id].first = static_cast<std::uint32_t>(i);
  if (i + 1 == capacity || order.id[i + 1] != id) run[id].end = static_cast<std::uint32_t>(i + 1);
}

}  // namespace samebits::cuda
