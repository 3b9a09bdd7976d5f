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
  std::int64_t along_stride, deep_stride, along_end;
};

// Brings tiles of an operand, step by step, by way of registers. Neighbouring threads take what is neighbouring in memory.
// Elements at or beyond an end are +0: a product of two such leaves an accumulator as it is, but for -0.
template <class Real>
class FmaLoader {
  using Tile = FmaTile<Real>;

 public:
  __device__ FmaLoader(const FmaSource& source, std::int64_t first, std::int64_t depth)
      : data_(source.data), dtype_(source.dtype), dense_(source.deep_stride == 1) {
    const int thread = static_cast<int>(threadIdx.x);
    const int along = dense_ ? thread / kFmaDepth : thread % Tile::kSize;
    const int deep = dense_ ? thread % kFmaDepth : thread / Tile::kSize;
    const int round =
        dense_ ? kFmaThreads / kFmaDepth : kFmaThreads / Tile::kSize;  // lines of one load of all threads
    along_left_ = static_cast<int>(
        min(max(source.along_end - first - along, std::int64_t{0}), std::int64_t{Tile::kSize}));
    deep_left_ = depth - deep;
    offset_ = (first + along) * source.along_stride + deep * source.deep_stride;
    step_stride_ = kFmaDepth * source.deep_stride;
    round_stride_ = round * (dense_ ? source.along_stride : source.deep_stride);
    place_ = deep * Tile::kPitch + along;
    place_round_ = dense_ ? round : round * Tile::kPitch;
  }

  // Reads the next step's elements.
  __device__ __forceinline__ void fetch() {
    if constexpr (sizeof(Real) == 8) {
      load(double{});
    } else {
      switch (dtype_) {
        case DType::kFloat16: load(order::Float16{}); break;
        case DType::kBFloat16: load(order::BFloat16{}); break;
        default: load(float{});
      }
    }
    offset_ += step_stride_;
    deep_left_ -= kFmaDepth;
  }

  // Puts what was read into shared memory.
  __device__ __forceinline__ void keep(Tile& tile) const {
    Real* to = &tile.number[0][0] + place_;
#pragma unroll
    for (int i = 0; i < Tile::kLoads; ++i) to[i * place_round_] = x_[i];
  }

 private:
  template <class T>
  __device__ __forceinline__ void load(T) {
    const T* from = static_cast<const T*>(data_) + offset_;
#pragma unroll
    for (int i = 0; i < Tile::kLoads; ++i) {
      const bool inside = dense_ ? i * (kFmaThreads / kFmaDepth) < along_left_ && deep_left_ > 0
                                 : along_left_ > 0 && i * (kFmaThreads / Tile::kSize) < deep_left_;
      x_[i] = inside ? order::widen<Real>(from[i * round_stride_]) : Real(0);
    }
  }

  const void* data_;
  DType dtype_;
  bool dense_;
  int along_left_, place_, place_round_;
  std::int64_t deep_left_, offset_, step_stride_, round_stride_;
  Real x_[Tile::kLoads];
};

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

// kLong: more than one segment, whose sums take the registers of a second CTA.
template <class Real, bool kLong>
__global__ __launch_bounds__(kFmaThreads,
                             kLong ? 1 : kFmaCtas) void product_fma_tile(const __grid_constant__ Product p) {
  using Tile = FmaTile<Real>;
  constexpr int kMine = Tile::kMine, kTotals = kLong ? kMine : 1;
  __shared__ __align__(16) Tile tiles[2][2];  // [of this or the next step][operand]
  const std::int64_t rows = bounded(p.rows, p.row_bound, p.row_first);
  const TilePlace place = tile_place<Tile::kSize, Tile::kSize>(p);
  if (place.row >= rows) return;
  const std::int64_t depth = bounded(p.depth, p.depth_bound, p.depth_first);
  FmaLoader<Real> a({p.a.data, p.a_dtype, p.a.row_stride, p.a.column_stride, rows}, place.row, depth);
  FmaLoader<Real> b({p.b.data, p.b_dtype, p.b.column_stride, p.b.row_stride, p.columns}, place.column, depth);

  const int down = static_cast<int>(threadIdx.x) / 16, across = static_cast<int>(threadIdx.x) % 16;
  Real acc[kMine][kMine] = {}, total[kTotals][kMine] = {};
  const auto fetch = [&] {
    a.fetch();
    b.fetch();
  };
  const auto keep = [&](int buffer) {
    a.keep(tiles[buffer][0]);
    b.keep(tiles[buffer][1]);
  };
  if (depth > 0) {
    fetch();
    keep(0);
    __syncthreads();
  }
  int buffer = 0;
  for (std::int64_t k = 0; k < depth; k += kFmaDepth) {
    const bool last = k + kFmaDepth >= depth;
    if (!last) fetch();
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
    if (!last) keep(buffer);
    __syncthreads();
    if constexpr (kLong) {
      if (!last && (k + kFmaDepth) % order::kSegment != 0) continue;
#pragma unroll
      for (int i = 0; i < kMine; ++i)
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          total[i][j] = total[i][j] + acc[i][j];
          acc[i][j] = Real(0);
        }
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
      Real value = kLong ? total[kLong ? i : 0][j] : Real(0) + acc[i][j];
      if (p.bias != nullptr) value = value + bias_of<Real>(p, column);
      store_element(p, row, column, value);
    }
  }
}

}  // namespace samebits::cuda
