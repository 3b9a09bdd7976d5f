// What a warpgroup does with its tile of a plain product, 64 rows at a time; and what such ends have in common.
#pragma once

#include "cuda/kernel/sm90_product.cuh"
#include "cuda/prim/pair.cuh"
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

  // 64 columns, by the lanes themselves: write(row, i, word) stores the elements 2 i and 2 i + 1, lane after lane of a row.
  template <class Pair, class Write>
  __device__ __forceinline__ void chunk_by_lanes(Pair pair, Write write) const {
    __syncwarp();  // of the chunk before nothing is read any more
    fill(0, pair);
    __syncwarp();
#pragma unroll 2
    for (int i = 0; i < 16; ++i)
      write(row + i, lane(),
            *reinterpret_cast<const std::uint32_t*>(buffer(0) + i * 128 + ((lane() / 4) ^ (i % 8)) * 16 +
                                                    lane() % 4 * 4));
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
      if constexpr (biased) value = value + pair_value<T>(bias[column * bias_stride].bits, 0);
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

// out = the last segment on top of the `partial` sum (null: none), with the bias, rounded to the operand type: through shared
// memory, and on by the copy engine, or by the lanes where it cannot write `out`. Stores from the accumulators' places, of 4
// bytes a thread, would be of half a sector of L2, and hold up what is loaded for the next tiles.
template <class T>
struct StoreRounded {
  using Store = WarpStore<1>;  // leaves room for as many stages as without
  static constexpr int kStagingBytes = 4 * kConsumers * Store::kBytes;
  static constexpr bool kParts = false, kLong = false;
  template <class Tile>
  static constexpr bool kPairs = false;
  bool copied;
  CUtensorMap map;  // copied: of out, boxes of 64 columns x 16 rows; all rows of the shape are live
  T* out;
  std::int64_t stride;
  int columns;
  const float* partial;
  std::int64_t partial_stride;
  const T* bias;
  std::int64_t bias_stride;

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    if (partial != nullptr) add_partial(d, tile, live);
    if (bias != nullptr) add_bias(d, tile);
    const int first = tile.row + 16 * (thread_number() / 32 % 4);  // of the warp
    if (first >= live.rows) return;
    const Store to{staging + thread_number() / 32 % 4 * Store::kBytes, &map, first};
    if (copied)
      each_unit(d, tile, [&](int column, int unit, auto pair) { to.chunk(column, unit, pair); });
    else
      each_unit(d, tile, [&](int column, int, auto pair) {
        to.chunk_by_lanes(pair, [&](int row, int i, std::uint32_t word) {
          if (row < live.rows) write(row, column + 2 * i, word);
        });
      });
  }
  __device__ void end() const {
    if (thread_number() % 32 == 0) store_wait_read<0>();
  }

 private:
  static constexpr int kUnit = 32;  // a thread's elements of 64 rows x 64 columns

  // body(column, unit, pair) for each 64 columns that there are.
  template <int n, class Body>
  __device__ __forceinline__ void each_unit(const float (&d)[n], const TileAt& tile, Body body) const {
#pragma unroll
    for (int unit = 0; unit < n / kUnit; ++unit)
      if (tile.column + 64 * unit < columns)
        body(tile.column + 64 * unit, unit, [&](int j, int h) {
          const int i = unit * kUnit + 4 * j + 2 * h;
          return pair_of<T>(d[i], d[i + 1]);
        });
  }

  template <int n>
  __device__ __forceinline__ void add_partial(float (&d)[n], const TileAt& tile,
                                              const LiveShape& live) const {
    const Fragment at(tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (at.row + 8 * h >= live.rows) continue;
      const float* sum = partial + (at.row + 8 * h) * partial_stride + at.column;
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const int offset = 8 * (i / 2) + i % 2;
        float& value = d[4 * (i / 2) + 2 * h + i % 2];
        if (at.column + offset < columns) value = sum[offset] + value;
      }
    }
  }

  template <int n>
  __device__ __forceinline__ void add_bias(float (&d)[n], const TileAt& tile) const {
    const int column = Fragment(tile).column;
    const T* from = bias + column * bias_stride;
#pragma unroll
    for (int j = 0; j < n / 4; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (column + 8 * j + e >= columns) continue;
        const float b = pair_value<T>(from[e * bias_stride].bits, 0);
        d[4 * j + e] = d[4 * j + e] + b;
        d[4 * j + 2 + e] = d[4 * j + 2 + e] + b;
      }
      from += 8 * bias_stride;
      if (j % 4 == 3) asm volatile("" ::: "memory");  // few loads at a time: registers are short
    }
  }

  __device__ __forceinline__ void write(int row, int column, std::uint32_t word) const {
    T* to = out + row * stride + column;
    if (column + 1 < columns && reinterpret_cast<std::uintptr_t>(to) % 4 == 0) {
      *reinterpret_cast<std::uint32_t*>(to) = word;
    } else {
      if (column < columns) to[0] = T{static_cast<std::uint16_t>(word)};
      if (column + 1 < columns) to[1] = T{static_cast<std::uint16_t>(word >> 16)};
    }
  }
};

}  // namespace samebits::cuda
