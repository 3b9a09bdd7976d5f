// How the work on rows is split: over threads by rows, and by blocks of a row where rows are few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/row_index.h"

namespace samebits::cpu {

// Below this many elements a second thread costs more than it brings.
inline constexpr std::int64_t kSerialElements = 16384;
// With fewer rows than this per thread, rows are cut into parts; a part has at least kPartBlocks blocks.
inline constexpr std::int64_t kRowsPerThread = 4;
inline constexpr std::int64_t kPartBlocks = 32;

inline int threads_for(std::int64_t rows, std::int64_t columns, int threads) {
  return rows * columns < kSerialElements ? 1 : threads;
}

// How many parts a row is cut into, so that few rows keep all threads busy. Parts are whole blocks.
inline std::int64_t parts_per_row(std::int64_t rows, std::int64_t blocks, int threads) {
  if (threads <= 1 || rows >= kRowsPerThread * threads) return 1;
  const std::int64_t wanted = (kRowsPerThread * threads + rows - 1) / rows;
  return std::clamp<std::int64_t>(std::min(wanted, blocks / kPartBlocks), 1, blocks);
}

// The first element of a row.
inline const std::byte* row_data(const core::RowArray<const void>& rows, std::int64_t row) {
  return static_cast<const std::byte*>(rows.data) + rows.index.offset(row) * dtype_size(rows.dtype);
}

}  // namespace samebits::cpu
