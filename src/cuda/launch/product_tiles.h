// A buffer through which products of any size pass, tile by tile.
#pragma once

#include "cuda/launch/launch.h"
#include "order/row.h"

namespace samebits::cuda {

// Elements of the buffer: the rows [row, row + rows) and columns [column, column + columns) of a product.
template <class Real>
struct ProductTile {
  Real* data;
  std::int64_t stride;
  std::int64_t row, rows;
  std::int64_t column, columns;
};

template <class Real>
struct ProductTiles {
  Real* buffer = nullptr;

  // Bytes of the buffer at most, and its columns where there are many of both.
  static constexpr std::int64_t kBytes = std::int64_t{14} << 20, kColumns = 3584;

  // Bytes of the buffer for products of at most so many rows and columns.
  static std::size_t bytes(std::int64_t rows, std::int64_t columns) {
    const auto size = static_cast<std::int64_t>(sizeof(Real));
    return static_cast<std::size_t>(std::min(rows * whole_blocks(columns) * size, kBytes));
  }

  // `body(tile)` for tiles that cover `rows` by `columns`; all but the last ones have whole blocks of rows and columns, so
  // that what is read of the operands of a tile is as aligned as the operands are.
  template <class Body>
  void cover(std::int64_t rows, std::int64_t columns, Body&& body) const {
    constexpr std::int64_t kElements = kBytes / static_cast<std::int64_t>(sizeof(Real));
    if (rows == 0 || columns == 0) return;
    std::int64_t width = std::min(whole_blocks(columns), kColumns);
    std::int64_t height = std::min(kElements / width, rows);
    if (height < rows)
      height = height / order::kBlock * order::kBlock;
    else
      width = std::min(whole_blocks(columns), kElements / rows / order::kBlock * order::kBlock);
    in_ranges(columns, width, [&](std::int64_t column, std::int64_t wide) {
      in_ranges(rows, height, [&](std::int64_t row, std::int64_t high) {
        body(ProductTile<Real>{buffer, whole_blocks(wide), row, high, column, wide});
      });
    });
  }

 private:
  static constexpr std::int64_t whole_blocks(std::int64_t columns) {
    return order::block_count(columns) * order::kBlock;
  }
};

// Where an element of an operand lies.
inline const void* element_at(const void* data, DType dtype, std::int64_t element) {
  return static_cast<const char*>(data) + element * dtype_size(dtype);
}

}  // namespace samebits::cuda
