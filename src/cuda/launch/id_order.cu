#include "cuda/launch/id_order.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "cuda/kernel/id_order.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

using Keys = cub::DoubleBuffer<std::int64_t>;
using Positions = cub::DoubleBuffer<std::int32_t>;

std::int64_t ctas_for(std::int64_t capacity) { return (capacity + kIdThreads - 1) / kIdThreads; }

// A radix sort keeps the order of equal keys. The number of low bits that tell all ids below `limit` from each other
// and from kNoId, whose bits are all ones.
int key_bits(std::int64_t limit) { return std::bit_width(static_cast<std::uint64_t>(limit)); }

std::size_t sort_bytes(std::int64_t capacity) {
  std::size_t bytes = 0;
  Keys keys;
  Positions positions;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, positions, capacity), "sort_ids");
  return bytes;
}

}  // namespace

std::size_t order_by_id_bytes(std::int64_t capacity, const core::DeviceCall& call) {
  if (capacity == 0) return 0;
  const DeviceGuard guard(call.device);
  const auto count = static_cast<std::size_t>(capacity);
  return 2 * Scratch::rounded(count * sizeof(std::int64_t)) +
         2 * Scratch::rounded(count * sizeof(std::int32_t)) + Scratch::rounded(sort_bytes(capacity));
}

IdOrder order_by_id(const IdList& list, Scratch& scratch, const core::DeviceCall& call) {
  if (list.capacity == 0) return {};
  const DeviceGuard guard(call.device);
  const auto count = static_cast<std::size_t>(list.capacity);
  const auto ids = [&] { return static_cast<std::int64_t*>(scratch.take(count * sizeof(std::int64_t))); };
  const auto rows = [&] { return static_cast<std::int32_t*>(scratch.take(count * sizeof(std::int32_t))); };
  std::int64_t* const id = ids();
  std::int32_t* const position = rows();
  Keys keys(id, ids());
  Positions positions(position, rows());
  launch("list_ids", list_ids, behind(ctas_for(list.capacity), kIdThreads), call, list, id, position);
  std::size_t bytes = sort_bytes(list.capacity);
  void* const temporary = scratch.take(bytes);
  check(cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, positions, list.capacity, 0,
                                        key_bits(list.limit), stream_of(call)),
        "sort_ids");
  return {keys.Current(), positions.Current()};
}

std::size_t find_id_runs_bytes(std::int64_t capacity, std::int64_t limit, const core::DeviceCall& call) {
  return order_by_id_bytes(capacity, call) +
         Scratch::rounded(static_cast<std::size_t>(limit) * sizeof(IdRun));
}

IdRun* cleared_id_runs(std::int64_t limit, Scratch& scratch, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const std::size_t bytes = static_cast<std::size_t>(limit) * sizeof(IdRun);
  auto* const run = static_cast<IdRun*>(scratch.take(bytes));
  if (bytes > 0) check(cudaMemsetAsync(run, 0, bytes, stream_of(call)), "mark_runs");
  return run;
}

IdRuns find_id_runs(const IdList& list, IdRun* run, Scratch& scratch, const core::DeviceCall& call,
                    bool beside_kernel_ahead) {
  const DeviceGuard guard(call.device);
  const std::int64_t capacity = list.capacity;
  if (capacity > 0 && capacity <= kFewIds) {
    const auto count = static_cast<std::size_t>(capacity);
    auto* const id = static_cast<std::int64_t*>(scratch.take(count * sizeof(std::int64_t)));
    const IdOrder order{id, static_cast<std::int32_t*>(scratch.take(count * sizeof(std::int32_t)))};
    launch("order_few_ids", order_few_ids,
           behind((4 * capacity + kFewIdThreads - 1) / kFewIdThreads, kFewIdThreads), call, list, order, run,
           beside_kernel_ahead);
    return {order, run, capacity};
  }
  const IdOrder order = order_by_id(list, scratch, call);
  launch("mark_runs", mark_runs, behind(ctas_for(capacity), kIdThreads), call, order, capacity, run);
  return {order, run, capacity};
}

}  // namespace samebits::cuda
