// Ids in sorted order, and where each id's positions lie in it.
#pragma once

#include <cstdint>
#include <limits>

namespace samebits::cuda {

// The id of entries that take no part; they come last.
inline constexpr std::int64_t kNoId = std::numeric_limits<std::int64_t>::max();

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
