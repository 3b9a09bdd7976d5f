// Where the rows by target begin for each range of columns.
#pragma once

#include "cuda/launch/head_weight.h"

namespace samebits::cuda {

inline constexpr int kMostBegins = 500;
struct ColumnBegins {
  int count;
  std::int32_t begin[kMostBegins + 1];
};

// A thread per range of columns.
__global__ void column_entries(const __grid_constant__ IdRuns runs,
                               const __grid_constant__ ColumnBegins columns, std::int64_t side_rows,
                               ColumnEntries* entries) {
  const int range = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (range >= columns.count) return;
  const std::int64_t column = columns.begin[range], end = columns.begin[range + 1];
  const auto below = [&](std::int64_t id) {
    std::int64_t low = 0, high = runs.capacity;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      runs.order.id[middle] < id ? low = middle + 1 : high = middle;
    }
    return low;
  };
  const std::int64_t before = below(column), over = before + side_rows;
  ColumnEntries& to = entries[range];
  to.before = static_cast<std::uint32_t>(before);
  to.overflow = static_cast<std::int32_t>(end - column);
  if (over >= below(end)) return;
  // The id of that entry is the first without a row, unless its run begins before.
  const std::int64_t id = runs.order.id[over];
  to.overflow = static_cast<std::int32_t>(id - column + (runs.run[id].first < over ? 1 : 0));
}

}  // namespace samebits::cuda
