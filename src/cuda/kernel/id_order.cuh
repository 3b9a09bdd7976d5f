// What comes before and after the sort of ids.
#pragma once

#include "cuda/kernel/id_order.h"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/reduce.cuh"

namespace samebits::cuda {

inline constexpr int kIdThreads = 256;

// The id of an entry as it is sorted.
__device__ __forceinline__ std::int64_t key_of(const IdList& list, std::int64_t i) {
  if (list.count != nullptr && i >= *list.count) return kNoId;
  const std::int64_t value =
      list.ids.dtype == DType::kInt32 ? *list.ids.at<std::int32_t>(i) : *list.ids.at<std::int64_t>(i);
  const bool skipped = list.has_skipped && value == list.skipped;
  return value >= 0 && value < list.limit && !skipped ? value : kNoId;
}

// The keys that are sorted.
__global__ void list_ids(const __grid_constant__ IdList list, std::int64_t* id, std::int32_t* position) {
  follow_kernel_ahead();
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kIdThreads) + threadIdx.x;
  if (i >= list.capacity) return;
  id[i] = key_of(list, i);
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

// Few entries are sorted by counting those before each, and their runs with them, four threads to an entry. `run` is of
// zeros.
inline constexpr int kFewIds = 1024, kFewIdThreads = 128;

__global__ void __launch_bounds__(kFewIdThreads)
    order_few_ids(const __grid_constant__ IdList list, const IdOrder order, IdRun* run,
                  bool beside_kernel_ahead) {
  if (!beside_kernel_ahead) wait_for_kernel_ahead();
  let_kernel_behind_start();
  __shared__ std::int64_t keys[kFewIds];
  const int count = static_cast<int>(list.capacity);
  for (int i = threadIdx.x; i < count; i += kFewIdThreads) keys[i] = key_of(list, i);
  __syncthreads();
  const int entry = (blockIdx.x * kFewIdThreads + threadIdx.x) / 4, lane = threadIdx.x % 4;
  const std::int64_t key = entry < count ? keys[entry] : kNoId;
  unsigned less = 0, equal = 0, before = 0;
  for (int i = lane; i < count; i += 4) {
    less += keys[i] < key;
    equal += keys[i] == key;
    before += keys[i] == key && i < entry;
  }
#pragma unroll
  for (int step = 1; step <= 2; ++step) {
    less += __shfl_xor_sync(kWarp, less, step);
    equal += __shfl_xor_sync(kWarp, equal, step);
    before += __shfl_xor_sync(kWarp, before, step);
  }
  if (entry < count && lane == 0) {
    order.id[less + before] = key;
    order.position[less + before] = entry;
    if (before == 0 && key != kNoId) run[key] = {less, less + equal};
  }
  if (beside_kernel_ahead) wait_for_kernel_ahead();
}

}  // namespace samebits::cuda
