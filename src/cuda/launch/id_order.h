// Ids in sorted order, for sums over all positions with one id.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernel/id_order.h"
#include "cuda/runtime.h"

namespace samebits::cuda {

// Contiguous int64 ids.
inline IdList id_list(const std::int64_t* id, std::int64_t capacity, const std::int32_t* count,
                      std::int64_t limit) {
  return {{id, DType::kInt64, {1, {capacity}, {1}}}, capacity, count, limit, false, 0};
}

// What order_by_id takes of its scratch.
std::size_t order_by_id_bytes(std::int64_t capacity, const core::DeviceCall& call);

// Sorts on the call's stream; the result lies in `scratch`.
IdOrder order_by_id(const IdList& list, Scratch& scratch, const core::DeviceCall& call);

// The same with a table of the ids' runs, which is cleared ahead.
std::size_t find_id_runs_bytes(std::int64_t capacity, std::int64_t limit, const core::DeviceCall& call);
IdRun* cleared_id_runs(std::int64_t limit, Scratch& scratch, const core::DeviceCall& call);
// `beside_kernel_ahead`: that one waited itself for the ids and the cleared table.
IdRuns find_id_runs(const IdList& list, IdRun* cleared, Scratch& scratch, const core::DeviceCall& call,
                    bool beside_kernel_ahead = false);

}  // namespace samebits::cuda
