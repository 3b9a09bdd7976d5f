// What a warpgroup does with its tile of a plain product, 64 rows at a time; and what such ends have in common.
#pragma once

#include "cuda/kernel/sm90_product.cuh"
#include "order/number.h"
#include "order/p_form.h"

namespace samebits::cuda {

// Where this thread's elements are: d[4 j + 2 h + e] is (row(h), column + 8 j + e).
struct Fragment {
  int row, column;
  __device__ explicit Fragment(const TileAt& tile) {
    const int lane = thread_number() % 32, warp = thread_number() / 32 % 4;
    row = tile.row + 16 * warp + lane / 4;
    column = tile.column + 2 * (lane % 4);
  }
};

// 16-bit results of a warpgroup, through shared memory to the copy engine: each warp has buffers of 16 rows x 64 columns, rows
// of 128 bytes with the engine's swizzle.
template <int buffer_count>
struct WarpStore {
  static constexpr int kBufferBytes = 16 * 128, kBytes = buffer_count * kBufferBytes;  // of a warp
  char* buffers;
  const CUtensorMap* map;
  int row;  // of the warp's first element

  // 64 columns from `column` on, the `number`-th of a run; `pair(j, h)` gives the two elements of this thread at 8 j.
  template <class Pair>
  __device__ __forceinline__ void chunk(int column, int number, Pair pair) const {
    // The run before may have ended on any buffer.
    if (lane() == 0) number == 0 ? store_wait_read<0>() : store_wait_read<buffer_count - 1>();
    __syncwarp();
    fill(number % buffer_count, pair);
    shared_to_async();
    __syncwarp();
    if (lane() != 0) return;
    tensor_store(map, column, row, buffer(number % buffer_count));
    store_commit();
  }

  // The columns from `column` on, but not from `end` on, 64 for each buffer of a half of them: `pair(i, j, h)` is of the
  // i-th buffer. By turns of the halves, so that of one nothing is read any more.
  template <class Pair>
  __device__ __forceinline__ void half_of_buffers(int column, int end, int half, Pair pair) const {
    constexpr int kHalf = buffer_count / 2;
    if (lane() == 0) store_wait_read<1>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kHalf; ++i) fill(kHalf * half + i, [&](int j, int h) { return pair(i, j, h); });
    shared_to_async();
    __syncwarp();
    if (lane() != 0) return;
#pragma unroll
    for (int i = 0; i < kHalf; ++i)
      if (column + 64 * i < end) tensor_store(map, column + 64 * i, row, buffer(kHalf * half + i));
    store_commit();
  }

 private:
  __device__ __forceinline__ static int lane() { return thread_number() % 32; }
  __device__ __forceinline__ char* buffer(int number) const { return buffers + number * kBufferBytes; }
  template <class Pair>
  __device__ __forceinline__ void fill(int number, Pair pair) const {
    // Matrix i of four: rows 8 (i % 2), columns 8 (i / 2) of a run of 16 columns.
    const int in_row = lane() % 8, matrix_row = in_row + 8 * (lane() / 8 % 2), matrix_column = lane() / 16;
    const std::uint32_t base = shared_address(buffer(number)) + matrix_row * 128;
#pragma unroll
    for (int j = 0; j < 8; j += 2)
      store_matrices(base + (((j + matrix_column) ^ in_row) * 16), pair(j, 0), pair(j, 1), pair(j + 1, 0),
                     pair(j + 1, 1));
  }
};

// out = d, or out = RN(out + d) behind the first segment, in fp32; the bias comes last. A total has no bias, and its pairs
// of elements are there whole and aligned.
template <class T, bool total = false>
struct StoreSegment {
  static constexpr int kStagingBytes = 0;
  static constexpr bool kParts = false, kLong = total;
  template <class Tile>
  static constexpr bool kPairs = false;
  float* out;
  std::int64_t stride;
  int columns;
  bool first;     // else there is a sum already
  const T* bias;  // or null
  std::int64_t bias_stride;

  template <int n>
  __device__ __forceinline__ void run(const float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char*) const {
    if (live.depth == 0 && !first) return;
    if (!total && bias != nullptr)
      first ? store<true, true>(d, tile, live) : store<false, true>(d, tile, live);
    else
      first ? store<true, false>(d, tile, live) : store<false, false>(d, tile, live);
  }
  __device__ void end() const {}

 private:
  template <bool starts, bool biased, int n>
  __device__ __forceinline__ void store(const float (&d)[n], const TileAt& tile,
                                        const LiveShape& live) const {
    const Fragment at(tile);
    const bool pairs = total || (stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(out) % 8 == 0);
    const auto finished = [&](float value, float sum, int column) {
      if constexpr (!starts) value = sum + value;
      if constexpr (biased) value = value + order::to_float(bias[column * bias_stride]);
      return value;
    };
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = at.row + 8 * h;
      if (row >= live.rows) continue;
      float* line = out + row * stride;
#pragma unroll
      for (int j = 0; j < n / 4; ++j) {
        const int column = at.column + 8 * j;
        const float2 value = {d[4 * j + 2 * h], d[4 * j + 2 * h + 1]};
        if (pairs && column + 1 < columns) {
          float2* to = reinterpret_cast<float2*>(line + column);
          const float2 sum = starts ? float2{} : *to;
          *to = {finished(value.x, sum.x, column), finished(value.y, sum.y, column + 1)};
        } else if (!total) {
          if (column < columns) line[column] = finished(value.x, starts ? 0.0f : line[column], column);
          if (column + 1 < columns)
            line[column + 1] = finished(value.y, starts ? 0.0f : line[column + 1], column + 1);
        }
      }
    }
  }
};

// out = the last segment on top of the `partial` sum (null: none), with the bias, rounded to the operand type.
template <class T>
struct StoreRounded {
  static constexpr int kStagingBytes = 0;
  static constexpr bool kParts = false, kLong = false;
  template <class Tile>
  static constexpr bool kPairs = false;
  T* out;
  std::int64_t stride;
  int columns;
  const float* partial;
  std::int64_t partial_stride;
  const T* bias;
  std::int64_t bias_stride;

  template <int n>
  __device__ __forceinline__ void run(const float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char*) const {
    const Fragment at(tile);
    const bool pairs = stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(out) % 4 == 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = at.row + 8 * h;
      if (row >= live.rows) continue;
      T* line = out + row * stride;
#pragma unroll
      for (int j = 0; j < n / 4; ++j) {
        const int column = at.column + 8 * j;
        const float low = finished(d[4 * j + 2 * h], row, column),
                    high = finished(d[4 * j + 2 * h + 1], row, column + 1);
        const std::uint32_t both = pair_of<T>(low, high);
        if (pairs && column + 1 < columns) {
          *reinterpret_cast<std::uint32_t*>(line + column) = both;
        } else {
          if (column < columns) line[column] = T{static_cast<std::uint16_t>(both)};
          if (column + 1 < columns) line[column + 1] = T{static_cast<std::uint16_t>(both >> 16)};
        }
      }
    }
  }
  __device__ void end() const {}

 private:
  __device__ __forceinline__ float finished(float value, int row, int column) const {
    if (column >= columns) return 0;
    if (partial != nullptr) value = partial[row * partial_stride + column] + value;
    if (bias != nullptr) value = value + order::to_float(bias[column * bias_stride]);
    return value;
  }
};

}  // namespace samebits::cuda
