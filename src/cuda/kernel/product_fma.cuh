// fma.v1 and fma64.v1 on CUDA cores: a CTA computes a square tile of elements from tiles of both operands in shared memory,
// widened there. Each thread holds its elements' chains in registers and takes k in ascending order.
#pragma once

#include "cuda/kernel/product.cuh"
#include "order/dot.h"

namespace samebits::cuda {

inline constexpr int kFmaThreads = 256, kFmaDepth = 16;

// 16 x 16 threads; a thread has two groups of kVector neighbours along either axis.
template <class Real>
struct FmaTile {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(Real));
  static constexpr int kMine = 2 * kVector;
  static constexpr int kSize = 16 * kMine;        // 128 for float, 64 for double
  static constexpr int kPitch = kSize + kVector;  // lines of 16 k start in different banks
  static constexpr int kLoads = kSize * kFmaDepth / kFmaThreads;
  Real number[kFmaDepth][kPitch];
};

// An operand by its axis along the result and its axis along k.
struct FmaSource {
  const void* data;
  DType dtype;
  std::int64_t along_stride, deep_stride, along_end, deep_end;
  bool dense;  // neighbours in memory run along k
};

// Element `i` of this thread's share of a tile: neighbouring threads take what is neighbouring in memory.
template <class Real>
__device__ __forceinline__ int along_of(const FmaSource& source, int i) {
  const int at = static_cast<int>(threadIdx.x) + i * kFmaThreads;
  return source.dense ? at / kFmaDepth : at % FmaTile<Real>::kSize;
}
template <class Real>
__device__ __forceinline__ int deep_of(const FmaSource& source, int i) {
  const int at = static_cast<int>(threadIdx.x) + i * kFmaThreads;
  return source.dense ? at % kFmaDepth : at / FmaTile<Real>::kSize;
}

// Elements at or beyond an end are +0: a product of two such leaves an accumulator as it is, but for -0.
template <class Real>
__device__ __forceinline__ void fetch(Real (&x)[FmaTile<Real>::kLoads], const FmaSource& source,
                                      std::int64_t first, std::int64_t k) {
  const auto load = [&](auto element) {
    const auto* data = static_cast<const decltype(element)*>(source.data);
#pragma unroll
    for (int i = 0; i < FmaTile<Real>::kLoads; ++i) {
      const std::int64_t along = first + along_of<Real>(source, i), deep = k + deep_of<Real>(source, i);
      x[i] = along < source.along_end && deep < source.deep_end
                 ? order::widen<Real>(data[along * source.along_stride + deep * source.deep_stride])
                 : Real(0);
    }
  };
  if constexpr (sizeof(Real) == 8) {
    load(double{});
  } else {
    switch (source.dtype) {
      case DType::kFloat16: return load(order::Float16{});
      case DType::kBFloat16: return load(order::BFloat16{});
      default: return load(float{});
    }
  }
}

template <class Real>
__device__ __forceinline__ void keep(FmaTile<Real>& tile, const FmaSource& source,
                                     const Real (&x)[FmaTile<Real>::kLoads]) {
#pragma unroll
  for (int i = 0; i < FmaTile<Real>::kLoads; ++i)
    tile.number[deep_of<Real>(source, i)][along_of<Real>(source, i)] = x[i];
}

// Where the elements of thread coordinate `at` (0 to 15) are along an axis of the tile.
template <class Real>
__device__ __forceinline__ int place_of(int at, int i) {
  constexpr int kVector = FmaTile<Real>::kVector;
  return i / kVector * 16 * kVector + at * kVector + i % kVector;
}

// This thread's numbers of line k, 16 bytes at a time.
template <class Real>
__device__ __forceinline__ void line(Real (&x)[FmaTile<Real>::kMine], const FmaTile<Real>& tile, int k,
                                     int at) {
  constexpr int kVector = FmaTile<Real>::kVector;
  struct alignas(16) Vector {
    Real x[kVector];
  };
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    const auto v = *reinterpret_cast<const Vector*>(&tile.number[k][place_of<Real>(at, group * kVector)]);
#pragma unroll
    for (int i = 0; i < kVector; ++i) x[group * kVector + i] = v.x[i];
  }
}

template <class Real>
__global__ __launch_bounds__(kFmaThreads, 1) void product_fma_tile(const __grid_constant__ Product p) {
  using Tile = FmaTile<Real>;
  constexpr int kMine = Tile::kMine;
  __shared__ __align__(16) Tile tiles[2][2];  // [of this or the next step][operand]
  const std::int64_t rows = bounded(p.rows, p.row_bound, p.row_first);
  const TilePlace place = tile_place<Tile::kSize, Tile::kSize>(p);
  if (place.row >= rows) return;
  const std::int64_t depth = bounded(p.depth, p.depth_bound, p.depth_first);
  const FmaSource a = {p.a.data, p.a_dtype, p.a.row_stride,        p.a.column_stride,
                       rows,     depth,     p.a.column_stride == 1};
  const FmaSource b = {p.b.data,  p.b_dtype, p.b.column_stride,  p.b.row_stride,
                       p.columns, depth,     p.b.row_stride == 1};

  const int down = static_cast<int>(threadIdx.x) / 16, across = static_cast<int>(threadIdx.x) % 16;
  Real acc[kMine][kMine] = {}, total[kMine][kMine] = {};
  Real next_a[Tile::kLoads], next_b[Tile::kLoads];
  const auto fetch_both = [&](std::int64_t k) {
    fetch<Real>(next_a, a, place.row, k);
    fetch<Real>(next_b, b, place.column, k);
  };
  const auto keep_both = [&](int buffer) {
    keep<Real>(tiles[buffer][0], a, next_a);
    keep<Real>(tiles[buffer][1], b, next_b);
  };
  if (depth > 0) {
    fetch_both(0);
    keep_both(0);
    __syncthreads();
  }
  int buffer = 0;
  for (std::int64_t k = 0; k < depth; k += kFmaDepth) {
    const bool last = k + kFmaDepth >= depth;
    if (!last) fetch_both(k + kFmaDepth);
#pragma unroll
    for (int step = 0; step < kFmaDepth; ++step) {
      Real x[kMine], y[kMine];
      line<Real>(x, tiles[buffer][0], step, down);
      line<Real>(y, tiles[buffer][1], step, across);
#pragma unroll
      for (int i = 0; i < kMine; ++i)
#pragma unroll
        for (int j = 0; j < kMine; ++j) acc[i][j] = order::fma(x[i], y[j], acc[i][j]);
    }
    buffer ^= 1;
    if (!last) keep_both(buffer);
    __syncthreads();
    if (!last && (k + kFmaDepth) % order::kSegment != 0) continue;
#pragma unroll
    for (int i = 0; i < kMine; ++i)
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        total[i][j] = total[i][j] + acc[i][j];
        acc[i][j] = Real(0);
      }
  }

#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const std::int64_t row = place.row + place_of<Real>(down, i);
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const std::int64_t column = place.column + place_of<Real>(across, j);
      if (column >= p.columns) continue;
      Real value = total[i][j];
      if (p.bias != nullptr) value = value + bias_of<Real>(p, column);
      store_element(p, row, column, value);
    }
  }
}

}  // namespace samebits::cuda
