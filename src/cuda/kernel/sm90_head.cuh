// What a warpgroup does with its 64 x N logits: the statistics of their blocks, or P. A row's block lies in the four lanes
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

// What both epilogues know of a row.
struct HeadRowInputs {
  const float* inverse_tau;    // of the first row of the range; null: 1
  const std::int64_t* target;  // likewise
};

// `scaled`: there is a temperature.
template <class T, bool entropy, bool scaled>
struct BlockStatistics {
  static constexpr int kStagingBytes = 0;
  static constexpr bool kParts = false;
  HeadColumns<T> columns;
  HeadRowInputs inputs;
  float *max, *sum, *entropy_sum;  // [blocks][stride]
  std::int64_t stride;
  float* target_logit;  // of the first row of the range

  // Loaded before the product, whose time hides the way to memory; used behind it alone.
  struct Rows {
    float inverse_tau[2];
    std::int64_t target[2];
    __device__ Rows(const BlockStatistics& epilogue, const TileAt& tile, const LiveShape& live) {
      const Fragment at(tile);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = at.row + 8 * h;
        inverse_tau[h] = 1;
        target[h] = -1;
        if (row >= live.rows) continue;
        if constexpr (scaled) inverse_tau[h] = epilogue.inputs.inverse_tau[row];
        target[h] = epilogue.inputs.target[row];
      }
    }
  };

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], const TileAt& tile, const LiveShape& live,
                                      const Rows& rows, char*) const {
    constexpr int kBlocks = n / 64;  // of a row
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
    // All blocks step by step, so that one's exchanges between lanes hide behind another's.
    float m[2][kBlocks], s[2][kBlocks], u[2][kBlocks];
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) m[i % 2][i / 2] = own_max(d, 64 * (i / 2) + 2 * (i % 2));
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      // The rounding of z keeps the order of x, so that the largest z is that of the largest x.
      m[i % 2][i / 2] = quad_max(m[i % 2][i / 2]);
      if constexpr (scaled) m[i % 2][i / 2] = m[i % 2][i / 2] * rows.inverse_tau[i % 2];
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i)
      own_sums(d, 64 * (i / 2) + 2 * (i % 2), rows.inverse_tau[i % 2], m[i % 2][i / 2], s[i % 2][i / 2],
               u[i % 2][i / 2]);
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      s[i % 2][i / 2] = quad_sum(s[i % 2][i / 2]);
      if constexpr (entropy) u[i % 2][i / 2] = quad_sum(u[i % 2][i / 2]);
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      const int h = i % 2, b = i / 2, row = at.row + 8 * h;
      if (threadIdx.x % 4 != 0 || row >= live.rows || tile.column + b * order::kBlock >= columns.vocab)
        continue;
      const std::int64_t to = (tile.column / order::kBlock + b) * stride + row;
      max[to] = m[h][b];
      sum[to] = s[h][b];
      if constexpr (entropy) entropy_sum[to] = u[h][b];
    }
  }
  __device__ void end() const {}

 private:
  // Of a lane's elements first + 4 j + e, j from 0 to 15.
  template <int n>
  __device__ __forceinline__ static float own_max(const float (&d)[n], int first) {
    float m[2] = {d[first], d[first + 1]};
#pragma unroll
    for (int i = 2; i < 32; ++i) m[i % 2] = max_nan(m[i % 2], d[first + 4 * (i / 2) + i % 2]);
    return max_nan(m[0], m[1]);
  }

  template <int n>
  __device__ __forceinline__ static void own_sums(const float (&d)[n], int first, float it, float m,
                                                  float& sum, float& spread) {
    float s[2][4], u[2][4];
#pragma unroll
    for (int j = 0; j < 16; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float z = scaled ? d[first + 4 * j + e] * it : d[first + 4 * j + e];
        const float distance = fmaxf(z - m, order::RowV1::kCut);
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

  // Columns 64 chunk to 64 chunk + 63; `pair(j, h)` gives the two elements of this thread at 8 j of the chunk.
  template <class Pair>
  __device__ __forceinline__ void chunk(int number, Pair pair) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    char* buffer = buffers + (number % 2) * kBufferBytes;
    // The tile before may have ended on either buffer.
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

// P of a tile, +0 in rows beyond the live ones. `sloped`: rows may have an entropy gradient; `scaled`: there is a
// temperature.
template <class T, bool sloped, bool scaled>
struct StoreP {
  static constexpr int kStagingBytes = 8 * WarpStore::kBytes;
  static constexpr bool kParts = false;
  CUtensorMap out;         // of P, boxes of 64 columns x 16 rows
  HeadColumns<T> columns;  // `vocab`: columns of P
  HeadRowInputs inputs;
  const order::PRow* p_rows;  // of the first row of the range
  std::int64_t column;        // of P's first column

  // Loaded before the product, used behind it.
  struct Rows {
    float inverse_tau[2], reference[2];
    std::int64_t target[2];
    order::RowClass kind[2];
    __device__ Rows(const StoreP& epilogue, const TileAt& tile, const LiveShape& live) {
      const Fragment at(tile);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = at.row + 8 * h;
        inverse_tau[h] = 1;
        reference[h] = 0;
        target[h] = -1;
        kind[h] = order::RowClass::kEmpty;
        if (row >= live.rows) continue;
        const order::PRow& p = epilogue.p_rows[row];
        kind[h] = p.kind;
        reference[h] = p.reference;
        if constexpr (scaled) inverse_tau[h] = epilogue.inputs.inverse_tau[row];
        target[h] = epilogue.inputs.target[row];
      }
    }
  };

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], const TileAt& tile, const LiveShape&, const Rows& rows,
                                      char* staging) const {
    const Fragment at(tile);
    columns.prepare(d, at.column);
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const WarpStore store{staging + warp * WarpStore::kBytes, &out, tile.row + 16 * warp, tile.column};
    // Chunk by chunk: the arithmetic of one runs while the copy engine reads the one before.
#pragma unroll
    for (int chunk = 0; chunk < n / 32; ++chunk) {
      if (tile.column + 64 * chunk >= columns.vocab) break;
#pragma unroll
      for (int h = 0; h < 2; ++h)
        fill(d, 32 * chunk + 2 * h, 64 * chunk, tile.column, rows, h, at.row + 8 * h);
      store.chunk(chunk, [&](int j, int h) {
        const int at_j = 4 * (8 * chunk + j) + 2 * h;
        return pair_of<T>(d[at_j], d[at_j + 1]);
      });
    }
  }
  __device__ void end() const {
    if (threadIdx.x % 32 == 0) store_wait_read<0>();
  }

 private:
  // P of the elements first + 4 j + e, j from 0 to 7, of a row; `offset`: of the first one's column in the tile.
  template <int n>
  __device__ __forceinline__ void fill(float (&d)[n], int first, int offset, int tile_column,
                                       const Rows& rows, int h, int row) const {
    order::PRow p{};
    if constexpr (sloped)
      if (rows.kind[h] == order::RowClass::kFinite) p = p_rows[row];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& value = d[first + 4 * (i / 2) + i % 2];
      const float z = scaled ? value * rows.inverse_tau[h] : value;
      if constexpr (sloped) {
        value = order::p_column(p, z);
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

}  // namespace samebits::cuda
