// What a warpgroup does with its tile of the product that grad_hidden is made of, 64 rows at a time. CONTRACT section 4, point 5.
#pragma once

#include "cuda/kernel/sm90_store.cuh"

namespace samebits::cuda {

// `take(row, h)` of this thread's live rows says whether all of their elements are finite; a row of which not is marked.
template <class Take>
__device__ __forceinline__ void take_rows(const Fragment& at, const LiveShape& live, std::int32_t* not_finite,
                                          Take take) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = at.row + 8 * h;
    if (row < live.rows && !take(row, h)) not_finite[row] = 1;
  }
}

// counts[row, column] += llrint(d * 2^w of the row); those of a marked row mean nothing. Tiles of several parts of K may
// add to the same counts at a time, and nobody waits for the counts to come.
struct AddIntegers {
  static constexpr int kStagingBytes = 0;
  static constexpr bool kParts = true, kLong = false;
  template <class Tile>
  static constexpr bool kPairs = false;
  long long* counts;  // of the first row of the range
  std::int64_t stride;
  int columns;  // even
  const std::int32_t* exponent;
  std::int32_t* not_finite;

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char*) const {
    const Fragment at(tile);
    take_rows(at, live, not_finite, [&](int row, int h) {
      const double scale = order::power_of_2(exponent[row]);
      auto* line = reinterpret_cast<unsigned long long*>(counts + row * stride + at.column);
      bool finite = true;
#pragma unroll
      for (int j = 0; j < n / 4; ++j) {
        if (at.column + 8 * j >= columns) continue;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float value = d[4 * j + 2 * h + e];
          finite = finite && order::is_finite(value);
          const long long count = __double2ll_rn(static_cast<double>(value) * scale);
          atomicAdd(line + 8 * j + e, static_cast<unsigned long long>(count));
        }
      }
      return finite;
    });
  }
  __device__ void end() const {}
};

// sums[part][row, column] = d, of which the counts are made when their scale is known. On the way, the largest magnitude
// of B.
struct HoldSums {
  static constexpr int kStagingBytes = 0;
  static constexpr bool kParts = true, kLong = false;
  template <class Tile>
  static constexpr bool kPairs = false;
  float* sums;  // of the first part and the first row of the range
  std::int64_t part_stride, stride;
  int columns;  // even
  std::int32_t* not_finite;
  std::uint32_t* largest;

  template <int n>
  __device__ __forceinline__ void run(const float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char*) const {
    const Fragment at(tile);
    take_rows(at, live, not_finite, [&](int row, int h) {
      auto* to = reinterpret_cast<float2*>(sums + tile.part * part_stride + row * stride + at.column);
      bool finite = true;
#pragma unroll
      for (int j = 0; j < n / 4; ++j) {
        if (at.column + 8 * j >= columns) continue;
        const float2 value = {d[4 * j + 2 * h], d[4 * j + 2 * h + 1]};
        finite = finite && order::is_finite(value.x) && order::is_finite(value.y);
        to[4 * j] = value;
      }
      return finite;
    });
  }
  __device__ void end() const {}
};

}  // namespace samebits::cuda
