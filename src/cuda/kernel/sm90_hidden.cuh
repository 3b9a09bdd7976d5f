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
template <bool has_short>
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
  int first_short;  // part, of little depth as those behind it

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char*) const {
    const Fragment at(tile);
    const bool whole = (at.row | 15) < live.rows && columns % kChunkColumns == 0;
    if (has_short && whole && tile.part >= first_short)
      add_fast(d, at, columns - tile.column);
    else
      add(d, at, live);
  }
  __device__ void end() const {}

 private:
  // One count after the other. It takes long, but between them the other warpgroup's loads get through.
  template <int n>
  __device__ __forceinline__ void add(const float (&d)[n], const Fragment& at, const LiveShape& live) const {
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
          atomicAdd(line + 8 * j + e, count(value, scale));
        }
      }
      return finite;
    });
  }

  // Behind a product that takes less time than that: counts side by side, for nothing is left out of chunks of columns, and four
  // lanes add to a whole sector. Of 8 columns they have first 0, 2, 1, 3, then 5, 7, 4, 6.
  template <int n>
  __device__ __forceinline__ void add_fast(float (&d)[n], const Fragment& at, int live_columns) const {
    const bool upper = (thread_number() & 2) != 0;
    const int first = at.column - (upper ? 3 : 0), second = upper ? 3 : 5;  // and so many on
    double scale[2];
    unsigned long long* line[2];
    std::uint32_t largest[2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scale[h] = order::power_of_2(exponent[at.row + 8 * h]);
      line[h] = reinterpret_cast<unsigned long long*>(counts + (at.row + 8 * h) * stride + first);
    }
#pragma unroll
    for (int i = 0; i < n; i += 8) {
      if (2 * i % kChunkColumns == 0 && 2 * i >= live_columns) break;
#pragma unroll
      for (int k = 0; k < 8; ++k)
        asm volatile("" : "+f"(d[i + k]));  // worked out ahead, counts would take too many registers
      unsigned long long sum[8];
#pragma unroll
      for (int k = 0; k < 8; k += 2) {
        const int h = k / 2 % 2;
        const float low = d[i + k], high = __shfl_xor_sync(kWarp, d[i + k + 1], 2);
        largest[h] = max(largest[h], max(magnitude(low), magnitude(high)));
        sum[k] = count(upper ? high : low, scale[h]);
        sum[k + 1] = count(upper ? low : high, scale[h]);
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) atomicAdd(line[k / 2 % 2] + (k % 2 * second + 2 * i + 8 * (k / 4)), sum[k]);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (largest[h] >= kInfinity) not_finite[at.row + 8 * h] = 1;
  }

  static constexpr int kChunkColumns = 64;
  static constexpr std::uint32_t kInfinity = 0x7f800000;
  __device__ __forceinline__ static std::uint32_t magnitude(float value) {
    return __float_as_uint(value) & 0x7fffffffu;
  }
  __device__ __forceinline__ static unsigned long long count(float value, double scale) {
    return static_cast<unsigned long long>(__double2ll_rn(static_cast<double>(value) * scale));
  }
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
