// How work is cut for launches: tiles of products that pass through a buffer, and launches that are too large.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <samebits/samebits.h>

#include "cuda/launch/product_tiles.h"

namespace samebits::test {
namespace {

// Tiles of rows by columns lie in the buffer, cover every element once, and begin where blocks do.
template <class Real>
void expect_covered(std::int64_t rows, std::int64_t columns) {
  const cuda::ProductTiles<Real> tiles;
  const auto room = static_cast<std::int64_t>(tiles.bytes(rows, columns) / sizeof(Real));
  std::int64_t covered = 0;
  tiles.cover(rows, columns, [&](const cuda::ProductTile<Real>& tile) {
    EXPECT_LE(tile.rows * tile.stride, room);
    EXPECT_GE(tile.stride, tile.columns);
    EXPECT_EQ(tile.row % order::kBlock, 0);
    EXPECT_EQ(tile.column % order::kBlock, 0);
    EXPECT_LE(tile.row + tile.rows, rows);
    EXPECT_LE(tile.column + tile.columns, columns);
    covered += tile.rows * tile.columns;
  });
  EXPECT_EQ(covered, rows * columns);
}

TEST(CudaLaunch, tiles_cover_a_product_in_whole_blocks) {
  for (const std::int64_t rows : {0, 1, 127, 128, 1000, 1365, 2000, 8192})
    for (const std::int64_t columns : {0, 1, 129, 2688, 3584, 3585, 8192, 131072}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      expect_covered<float>(rows, columns);
      expect_covered<double>(rows, columns);
    }
}

TEST(CudaLaunch, more_blocks_than_a_grid_holds_are_refused) {
  void (*const never)() = nullptr;
  try {
    cuda::launch("never", never, {std::int64_t{1} << 31, 32}, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "never: would take 2147483648 thread blocks; a launch may have at most 2147483647");
  }
}

}  // namespace
}  // namespace samebits::test
