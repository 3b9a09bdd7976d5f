// Ids in sorted order, and where each id's positions lie in it.
#pragma once

#include <cstdint>
#include <limits>

#include "core/row_index.h"

namespace samebits::cuda {

// The id of entries that take no part; they come last.
inline constexpr std::int64_t kNoId = std::numeric_limits<std::int64_t>::max();

// Positions 0 to capacity - 1, at most 2^31 of them, and their ids.
struct IdList {
  core::RowArray<const void> ids = {};  // int32 or int64
  std::int64_t capacity = 0;
  const std::int32_t* count = nullptr;  // on the device; positions from *count on take no part. Null: all do
  std::int64_t limit = 0;               // ids outside [0, limit) take no part
  bool has_skipped = false;
  std::int64_t skipped = 0;  // neither does this one
};

// Ascending by id and, within an id, by position.
struct IdOrder {
  std::int64_t* id = nullptr;        // [capacity]
  std::int32_t* position = nullptr;  // [capacity]
};

// The entries [first, end) of the order; empty for an id that does not occur.
struct IdRun {
  std::uint32_t first = 0, end = 0;
};

// The order with a table of its runs: [limit], by id.
struct IdRuns {
  IdOrder order = {};
  const IdRun* run = nullptr;
  std::int64_t capacity = 0;
};

}  // namespace samebits::cuda
