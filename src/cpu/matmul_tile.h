// One tile of a product, complete over K: what matmul and linear_logp share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/matmul_problem.h"
#include "cpu/matmul_kernels.h"
#include "order/dot.h"

namespace samebits::cpu {

// The most rows and columns of a tile. A chunk of its A and one packed panel of B fit into a 1 MiB L2 cache, and
// every element of B that is packed is used by all the rows.
inline constexpr std::int64_t kTileRows = 384;
inline constexpr std::int64_t kTileColumns = 384;

// How a product is cut into tiles; free to choose, no bit depends on it.
struct TileShape {
  std::int64_t rows = 0, columns = 0;

  std::int64_t row_blocks(std::int64_t total) const { return (total + rows - 1) / rows; }
  std::int64_t column_blocks(std::int64_t total) const { return (total + columns - 1) / columns; }
};

// Large tiles, but enough of them to keep `threads` busy. Columns stay a multiple of `column_unit`.
inline TileShape choose_tile(std::int64_t rows, std::int64_t columns, int threads, std::int64_t column_unit) {
  constexpr std::int64_t kRowUnit = 24;  // a multiple of most register tiles
  const auto up = [](std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; };
  const std::int64_t row_blocks = std::max<std::int64_t>(1, (rows + kTileRows - 1) / kTileRows);
  TileShape shape;
  shape.rows = std::max<std::int64_t>(1, std::min(rows, up((rows + row_blocks - 1) / row_blocks, kRowUnit)));
  shape.columns = std::min(kTileColumns, up(std::max<std::int64_t>(columns, 1), column_unit));
  const auto too_few = [&] {
    return threads > 1 && shape.row_blocks(rows) * shape.column_blocks(columns) < 4 * std::int64_t{threads};
  };
  while (too_few() && shape.columns > column_unit)
    shape.columns = std::max(column_unit, up(shape.columns / 2, column_unit));
  while (too_few() && shape.rows > 2 * kRowUnit) shape.rows = up(shape.rows / 2, kRowUnit);
  return shape;
}

// The operands of a product. Strides in elements.
struct TileOperands {
  DType dtype = DType::kFloat32;
  std::int64_t depth = 0;     // K
  std::int64_t a_stride = 1;  // between neighbours of a row of A
  const void* b = nullptr;    // element (k, column) at b[k * b_depth_stride + column * b_column_stride]
  std::int64_t b_depth_stride = 0;
  std::int64_t b_column_stride = 1;
  bool real_a = false;  // A is held as what is computed in, whatever `dtype` of B
};

// A finished tile: element (r, c) at data[r * stride + c]. NaNs are not canonical yet.
template <class Real>
struct Tile {
  Real* data = nullptr;
  std::int64_t stride = 0;
};

// The scratch of one worker and what it computes in it.
template <class RealType>
class TileWorker {
 public:
  using Real = RealType;
  using Kernels = DotKernels<Real>;

  // Bytes for tiles of `shape` over `depth`; a multiple of 64.
  static std::size_t scratch_bytes(const TileShape& shape, std::int64_t depth) {
    return Layout(shape, depth).total * sizeof(Real);
  }

  // `scratch` is aligned to 64 bytes and holds scratch_bytes.
  TileWorker(const DotKernels<Real>& kernels, const TileOperands& operands, const TileShape& shape,
             std::byte* scratch);

  // Rows a_rows[0..rows) of A with the columns [column, column + columns) of B, no more than the shape's. The
  // result lives in the scratch until the next call and may be overwritten.
  Tile<Real> compute(const void* const* a_rows, std::int64_t rows, std::int64_t column, std::int64_t columns);

 private:
  // Where the parts of the scratch are, in elements.
  struct Layout {
    Layout(const TileShape& shape, std::int64_t depth);
    std::int64_t chunks_of_a, a, panel, staging, acc, total_of_segments, total, acc_stride;
  };

  void pack_a(const void* const* a_rows, std::int64_t rows, std::int64_t k, std::int64_t depth, Real* packed);
  void pack_panel(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth);
  // The packed panel times `rows` rows of packed A. (next_column, next_k) is what will be packed after it.
  void multiply(std::int64_t depth, const Real* a, std::int64_t rows, Real* acc, bool first,
                std::int64_t next_column, std::int64_t next_k);
  // The same for a chunk of all columns, B unpacked: it would be used too few times to earn the copy.
  void multiply_in_place(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
                         const Real* a, std::int64_t rows, Real* acc, bool first);
  bool stored_as_real() const {
    return operands_.dtype == (sizeof(Real) == 4 ? DType::kFloat32 : DType::kFloat64);
  }
  bool dense_along_k() const { return stored_as_real() && operands_.b_depth_stride == 1; }
  bool dense_across() const { return stored_as_real() && operands_.b_column_stride == 1; }

  const DotKernels<Real>& kernels_;
  const TileOperands& operands_;
  Layout layout_;
  // Columns of B whose starts fall into the same set of the L1 cache throw each other out of it, so they are copied
  // one after the other before they are transposed. One row alone waits for memory anyway and does without.
  bool copies_runs_;
  Real* scratch_;
};

extern template class TileWorker<float>;
extern template class TileWorker<double>;

}  // namespace samebits::cpu
