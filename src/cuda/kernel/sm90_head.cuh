// What a warpgroup does with 64 rows of its tile of logits: the statistics of their blocks, or P. A row's block lies in the four lanes
// of a quad, and lane i holds the columns 8 j + 2 i and 8 j + 2 i + 1 of every j: whole lanes (c, q) of CONTRACT section 1,
// step 4.
#pragma once

#include "cuda/kernel/sm90_store.cuh"
#include "cuda/prim/reduce.cuh"
#include "order/p_form.h"

namespace samebits::cuda {

// Logits on their way: with the bias, and what is needed of their rows.
template <class T>
struct HeadColumns {
  const T* bias;  // [vocab] or null
  std::int64_t bias_stride;
  int vocab;

  // x of the columns at 8 j + e behind `column`; missing ones become -inf.
  template <int n>
  __device__ __forceinline__ void prepare(float (&d)[n], int column) const {
    if (bias != nullptr) {
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const int v = column + 8 * (i / 2) + i % 2;
        const float b = v < vocab ? order::to_float(bias[v * bias_stride]) : 0.0f;
        d[4 * (i / 2) + i % 2] = d[4 * (i / 2) + i % 2] + b;
        d[4 * (i / 2) + i % 2 + 2] = d[4 * (i / 2) + i % 2 + 2] + b;
        if (i % 8 == 7) asm volatile("" ::: "memory");  // few loads at a time: registers are short
      }
    }
    if (column + 2 * n <= vocab) return;
#pragma unroll
    for (int i = 0; i < n / 2; ++i)
      if (column + 8 * (i / 2) + i % 2 >= vocab)
        d[4 * (i / 2) + i % 2] = d[4 * (i / 2) + i % 2 + 2] = -order::kInf32;
  }
};

// The element of row h and of the column `offset` behind the tile's first, or 0 where another lane of the quad has it.
template <int n>
__device__ __forceinline__ float pick(const float (&d)[n], int h, int offset) {
  const int mine = offset - 2 * (static_cast<int>(threadIdx.x) % 4);
  float found = 0;
#pragma unroll
  for (int i = 0; i < n / 2; ++i)
    if (mine == 8 * (i / 2) + i % 2) found = d[4 * (i / 2) + 2 * h + i % 2];
  return found;
}
__device__ __forceinline__ bool in_this_lane(int offset) {
  return offset % 8 / 2 == static_cast<int>(threadIdx.x) % 4;
}

__device__ __forceinline__ float quad_max(float value) {
  value = max_nan(value, shuffle_xor(value, 1));
  return max_nan(value, shuffle_xor(value, 2));
}
// ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7)) of a quad whose lane i holds a[2 i] + a[2 i + 1].
__device__ __forceinline__ float quad_sum(float sum) {
  sum = sum + shuffle_xor(sum, 1);
  return sum + shuffle_xor(sum, 2);
}

// What the epilogues know of a row.
struct HeadRowInputs {
  const float* inverse_tau;    // of the first row of the range; null: 1
  const std::int64_t* target;  // likewise

  __device__ __forceinline__ float factor(int row) const {
    return inverse_tau == nullptr ? 1.0f : inverse_tau[row];
  }
};

// The statistics of whole blocks. Two tiles side by side hold three blocks: the first tile keeps its half of the one
// between them, in shared memory, where each thread finds what it left there itself.
template <class T, bool entropy>
struct BlockStatistics {
  static constexpr int kKept = kTileColumns % order::kBlock / 2;  // by a thread of a half tile
  static constexpr int kStagingBytes = kConsumers * 2 * kKept * 128 * 4;
  static constexpr bool kParts = false, kPairs = true;
  HeadColumns<T> columns;
  HeadRowInputs inputs;
  float *max, *sum, *entropy_sum;  // [blocks][stride]
  std::int64_t stride;
  float* target_logit;  // of the first row of the range

  struct Rows {
    float inverse_tau[2];
    std::int64_t target[2];
    __device__ Rows(const BlockStatistics& epilogue, const TileAt& tile, const LiveShape& live) {
      const Fragment at(tile);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = at.row + 8 * h;
        const bool is_row = row < live.rows;
        inverse_tau[h] = is_row ? epilogue.inputs.factor(row) : 1.0f;
        target[h] = is_row ? epilogue.inputs.target[row] : -1;
      }
    }
  };

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    if (tile.row >= live.rows) return;
    const Rows rows(*this, tile, live);
    const Fragment at(tile);
    columns.prepare(d, at.column);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::int64_t offset = rows.target[h] - tile.column;
      const bool here = offset >= 0 && offset < 2 * n;
      if (!__any_sync(kWarp, here)) continue;
      const float x = pick(d, h, static_cast<int>(offset));
      if (here && in_this_lane(static_cast<int>(offset))) target_logit[at.row + 8 * h] = x;
    }
    float* const kept = reinterpret_cast<float*>(staging) + half * kKept * 128 + threadIdx.x % 128;
    const int first_block = tile.column / order::kBlock;  // of those that end in this tile
    if (tile.second) {
      block(first_block, rows, at.row, live, [&](int h, int j, int e) {
        return j < 8 ? kept[(4 * j + 2 * h + e) * 128] : d[4 * (j - 8) + 2 * h + e];
      });
      block(first_block + 1, rows, at.row, live,
            [&](int h, int j, int e) { return d[4 * (j + 8) + 2 * h + e]; });
    } else {
      block(first_block, rows, at.row, live, [&](int h, int j, int e) { return d[4 * j + 2 * h + e]; });
#pragma unroll
      for (int i = 0; i < kKept; ++i) kept[i * 128] = d[n - kKept + i];
    }
  }
  __device__ void end() const {}

 private:
  // One block of 64 rows; x(h, j, e) is the logit of row h of this thread and column 8 j + e of its own.
  template <class X>
  __device__ __forceinline__ void block(int number, const Rows& rows, int row, const LiveShape& live,
                                        X x) const {
    // Step by step for both rows, so that the exchanges between lanes of one hide behind the other's.
    float m[2], s[2], u[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      m[h] = max_nan(x(h, 0, 0), x(h, 0, 1));
#pragma unroll
      for (int j = 1; j < 16; ++j) m[h] = max_nan(m[h], max_nan(x(h, j, 0), x(h, j, 1)));
    }
    // The rounding of z keeps the order of x, so that the largest z is that of the largest x.
#pragma unroll
    for (int h = 0; h < 2; ++h) m[h] = quad_max(m[h]) * rows.inverse_tau[h];
#pragma unroll
    for (int h = 0; h < 2; ++h) own_sums(h, x, rows.inverse_tau[h], m[h], s[h], u[h]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s[h] = quad_sum(s[h]);
      if constexpr (entropy) u[h] = quad_sum(u[h]);
    }
    if (threadIdx.x % 4 != 0 || number * order::kBlock >= columns.vocab) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h >= live.rows) continue;
      const std::int64_t to = number * stride + row + 8 * h;
      max[to] = m[h];
      sum[to] = s[h];
      if constexpr (entropy) entropy_sum[to] = u[h];
    }
  }

  template <class X>
  __device__ __forceinline__ static void own_sums(int h, X x, float it, float m, float& sum, float& spread) {
    float s[2][4], u[2][4];
#pragma unroll
    for (int j = 0; j < 16; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float distance = fmaxf(x(h, j, e) * it - m, order::RowV1::kCut);
        const float term = order::exp_of_number(distance);
        s[e][j % 4] = j < 4 ? term : s[e][j % 4] + term;
        if constexpr (entropy) u[e][j % 4] = order::fma(term, -distance, j < 4 ? 0.0f : u[e][j % 4]);
      }
    sum = ((s[0][0] + s[0][1]) + (s[0][2] + s[0][3])) + ((s[1][0] + s[1][1]) + (s[1][2] + s[1][3]));
    if constexpr (entropy)
      spread = ((u[0][0] + u[0][1]) + (u[0][2] + u[0][3])) + ((u[1][0] + u[1][1]) + (u[1][2] + u[1][3]));
  }
};

// 16-bit results of a warpgroup, through shared memory to the copy engine: each warp has two buffers of 16 rows x 64
// columns, rows of 128 bytes with the engine's swizzle.
struct WarpStore {
  static constexpr int kBufferBytes = 16 * 128, kBytes = 2 * kBufferBytes;  // of a warp
  char* buffers;
  const CUtensorMap* map;
  int row, column;  // of the warp's first element

  // Columns 64 number to 64 number + 63, the `turn`-th chunk of a tile; `pair(j, h)` gives the two elements of this thread
  // at 8 j of the chunk.
  template <class Pair>
  __device__ __forceinline__ void chunk(int number, int turn, Pair pair) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    char* buffer = buffers + (turn % 2) * kBufferBytes;
    // A half or a tile before may have ended on either buffer.
    if (lane == 0) number == 0 ? store_wait_read<0>() : store_wait_read<1>();
    __syncwarp();
    // Matrix i of four: rows 8 (i % 2), columns 8 (i / 2) of a run of 16 columns.
    const int in_row = lane % 8, matrix_row = in_row + 8 * (lane / 8 % 2), matrix_column = lane / 16;
    const std::uint32_t base = shared_address(buffer) + matrix_row * 128;
#pragma unroll
    for (int j = 0; j < 8; j += 2)
      store_matrices(base + (((j + matrix_column) ^ in_row) * 16), pair(j, 0), pair(j, 1), pair(j + 1, 0),
                     pair(j + 1, 1));
    shared_to_async();
    __syncwarp();
    if (lane == 0) {
      tensor_store(map, column + 64 * number, row, buffer);
      store_commit();
    }
  }
};

// P of a tile. `sloped`: rows may have an entropy gradient. `scattered`: row i is row to[i] of P, and rows beyond the live
// ones are not written; else they are +0.
template <class T, bool sloped, bool scattered = false>
struct StoreP {
  static constexpr int kStagingBytes = scattered ? 0 : 4 * kConsumers * WarpStore::kBytes;
  static constexpr bool kParts = false, kPairs = false;
  CUtensorMap out;         // of P, boxes of 64 columns x 16 rows
  HeadColumns<T> columns;  // `vocab`: columns of P
  HeadRowInputs inputs;
  const order::PRow* p_rows;  // of the first row of the range
  std::int64_t column;        // of P's first column
  T* p;                       // scattered
  std::int64_t p_stride;
  const std::int32_t* to;

  struct Rows {
    float inverse_tau[2], reference[2];
    std::int64_t target[2];
    order::RowClass kind[2];

    // reference_of(row) of a live row; kind_of(row) likewise.
    template <class ReferenceOf, class KindOf>
    __device__ Rows(const HeadRowInputs& inputs, const TileAt& tile, const LiveShape& live,
                    ReferenceOf reference_of, KindOf kind_of) {
      const Fragment at(tile);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = at.row + 8 * h;
        const bool is_row = row < live.rows;
        inverse_tau[h] = is_row ? inputs.factor(row) : 1.0f;
        reference[h] = is_row ? reference_of(row) : 0.0f;
        target[h] = is_row ? inputs.target[row] : -1;
        kind[h] = is_row ? kind_of(row) : order::RowClass::kEmpty;
      }
    }
  };

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    const Rows rows(
        inputs, tile, live, [&](int row) { return p_rows[row].reference; },
        [&](int row) { return p_rows[row].kind; });
    columns.prepare(d, Fragment(tile).column);
    write(d, half, tile, live, rows, staging);
  }
  __device__ void end() const {
    if (!scattered && threadIdx.x % 32 == 0) store_wait_read<0>();
  }

  // Logits in d, which is used up.
  template <int n>
  __device__ __forceinline__ void write(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                        const Rows& rows, char* staging) const {
    constexpr int kChunks = n / 32;
    const Fragment at(tile);
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const WarpStore store{staging + warp * WarpStore::kBytes, &out, tile.row + 16 * warp, tile.column};
    // Chunk by chunk: the arithmetic of one runs while the copy engine reads the one before.
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (tile.column + 64 * chunk >= columns.vocab) break;
#pragma unroll
      for (int h = 0; h < 2; ++h)
        fill(d, 32 * chunk + 2 * h, 64 * chunk, tile.column, rows, h, at.row + 8 * h);
      const auto pair = [&](int j, int h) {
        const int at_j = 4 * (8 * chunk + j) + 2 * h;
        return pair_of<T>(d[at_j], d[at_j + 1]);
      };
      if constexpr (scattered)
        scatter(pair, at, 64 * chunk, live);
      else
        store.chunk(chunk, half * kChunks + chunk, pair);
    }
  }

 private:
  // A chunk, row by row; there is room up to a multiple of 64 columns.
  template <class Pair>
  __device__ __forceinline__ void scatter(Pair pair, const Fragment& at, int offset,
                                          const LiveShape& live) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = at.row + 8 * h;
      if (row >= live.rows) continue;
      T* line = p + to[row] * p_stride + at.column + offset;
#pragma unroll
      for (int j = 0; j < 8; ++j) *reinterpret_cast<std::uint32_t*>(line + 8 * j) = pair(j, h);
    }
  }

  // P of the elements first + 4 j + e, j from 0 to 7, of a row; `offset`: of the first one's column in the tile.
  template <int n>
  __device__ __forceinline__ void fill(float (&d)[n], int first, int offset, int tile_column,
                                       const Rows& rows, int h, int row) const {
    order::PRow form{};
    if constexpr (sloped)
      if (rows.kind[h] == order::RowClass::kFinite) form = p_rows[row];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& value = d[first + 4 * (i / 2) + i % 2];
      const float z = value * rows.inverse_tau[h];
      if constexpr (sloped) {
        value = order::p_column(form, z);
      } else {
        const float distance = z - rows.reference[h], e = order::exp_of_number(distance);
        value = distance < order::RowV1::kCut ? 0.0f : e;
      }
    }
    const bool number = rows.kind[h] == order::RowClass::kFinite;
    const std::int64_t target = rows.target[h] - (column + tile_column + offset);
    const bool here = number && target >= 0 && target < 64;
    if (!__any_sync(kWarp, here || !number)) return;
    const float all = rows.kind[h] == order::RowClass::kNan ? order::canonical_nan<float>() : 0.0f;
    const int mine = here ? static_cast<int>(target) - 2 * (static_cast<int>(threadIdx.x) % 4) : -1;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& value = d[first + 4 * (i / 2) + i % 2];
      if (!number) value = all;
      if (mine == 8 * (i / 2) + i % 2) value = 0;
    }
  }
};

// The statistics of a tile's blocks, and P against references known before the maximum is: every live row counts as finite.
template <class T>
struct SaveP {
  using Statistics = BlockStatistics<T, false>;
  using P = StoreP<T, false>;
  static constexpr int kStagingBytes = Statistics::kStagingBytes + P::kStagingBytes;
  static constexpr bool kParts = false, kPairs = true;
  Statistics statistics;
  P p;
  const float* reference;  // of the first row of the range

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    statistics.run(d, half, tile, live, staging);
    const typename P::Rows rows(
        p.inputs, tile, live, [&](int row) { return reference[row]; },
        [](int) { return order::RowClass::kFinite; });
    p.write(d, half, tile, live, rows, staging + Statistics::kStagingBytes / kConsumers);
  }
  __device__ void end() const { p.end(); }
};

}  // namespace samebits::cuda
