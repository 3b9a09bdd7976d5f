// The inner loops of fma.v1 and fma64.v1, one set per instruction set.
#pragma once

#include <cstdint>

#include "cpu/row_kernels.h"

namespace samebits::cpu {

inline constexpr int kMaxTileRows = 14;  // rows of the largest register tile of any instruction set

// Rows of packed A lie this far apart: one chunk of K, and a cache line so that neighbouring rows do not fall
// into the same cache set.
template <class Real>
inline constexpr std::int64_t kChunk = sizeof(Real) == 4 ? 256 : 128;
template <class Real>
inline constexpr std::int64_t kPackedStride = kChunk<Real> + static_cast<std::int64_t>(64 / sizeof(Real));

template <class Real>
struct DotKernels {
  // acc[r][c] = fma(a[r][k], b[k][c], acc[r][c]) for k ascending below depth, c below panel_columns. Rows of a are
  // kPackedStride apart, rows of b b_stride, rows of acc acc_stride. `first`: acc starts from +0.
  // Meanwhile fetches kChunk elements from each of panel_columns places, ahead_stride apart, into the cache.
  using Tile = void (*)(std::int64_t depth, const Real* a, const Real* b, std::int64_t b_stride, Real* acc,
                        std::int64_t acc_stride, bool first, const Real* ahead, std::int64_t ahead_stride);
  // packed[k][c] = source[c][k] for panel_columns columns, each contiguous along k, stride elements apart.
  using Transpose = void (*)(const Real* source, std::int64_t stride, std::int64_t depth, Real* packed);

  int tile_rows = 0;                 // rows of the register tile
  int panel_columns = 0;             // columns of the register tile
  Tile tile[kMaxTileRows + 1] = {};  // by number of rows, 1 to tile_rows
  Transpose transpose = nullptr;
};

struct MatmulKernels {
  DotKernels<float> f32;
  DotKernels<double> f64;

  template <class Real>
  const DotKernels<Real>& of() const {
    if constexpr (sizeof(Real) == 4)
      return f32;
    else
      return f64;
  }
};

// Null when this build does not have the instruction set.
const MatmulKernels* matmul_kernels(Isa isa);

}  // namespace samebits::cpu
