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

// A group of numbers at once: the compiler would do them one by one, each waiting for itself.
template <int n>
__device__ __forceinline__ void exp_of_numbers(float (&x)[n]) {
  using order::Exp32, order::fma;
  float t[n], p[n];
#pragma unroll
  for (int i = 0; i < n; ++i) t[i] = fma(x[i], Exp32::kLog2e, Exp32::kRoundMagic);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = t[i] - Exp32::kRoundMagic;
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = fma(x[i], Exp32::kLog2e, -p[i]);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(Exp32::kC5, x[i], Exp32::kC4);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], Exp32::kC3);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], Exp32::kC2);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], Exp32::kC1);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], 1.0f);
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = __uint_as_float(__float_as_uint(p[i]) + (__float_as_uint(t[i]) << 23));
}

// The statistics of whole blocks. Two tiles of 192 columns side by side hold three blocks: the first tile keeps its half of the one
// between them, in shared memory, where each thread finds what it left there itself.
template <class T, bool entropy>
struct BlockStatistics {
  static constexpr int kUnit = 32;                               // a thread's elements of 64 rows x 64 columns
  static constexpr int kStagingBytes = kConsumers * 2 * kUnit * 128 * 4;
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = Tile::kColumns % order::kBlock != 0;
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
    run_then(d, half, tile, live, staging, [](int) {});
  }
  __device__ void end() const {}

  // then(column) is called when the block from that column on is done: its logits are the first two units of d, which
  // may be used up.
  template <int n, class Then>
  __device__ __forceinline__ void run_then(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                           char* staging, Then then) const {
    constexpr bool kWhole = n == 2 * kUnit;  // a tile is a block
    static_assert(kWhole || n == 3 * kUnit);
    if (tile.row >= live.rows) return;
    const Rows rows(*this, tile, live);
    const Fragment at(tile);
    columns.prepare(d, at.column);
    keep_target(d, rows, tile, at);
    if constexpr (kWhole) {
      block(d, tile.column / order::kBlock, rows, at.row, live);
      then(tile.column);
    } else {
      float* const kept = reinterpret_cast<float*>(staging) + half * kUnit * 128 + threadIdx.x % 128;
      int column = tile.column;
      if (tile.second) {
        column -= order::kBlock / 2;
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {  // the unit that was kept comes first, the last one waits there
          const float before = kept[i * 128];
          kept[i * 128] = d[2 * kUnit + i];
          d[2 * kUnit + i] = d[kUnit + i];
          d[kUnit + i] = d[i];
          d[i] = before;
        }
      }
#pragma unroll 1
      for (int done = 0; column < columns.vocab; ++done, column += order::kBlock) {
        block(d, column / order::kBlock, rows, at.row, live);
        then(column);
        if (done == (tile.second ? 1 : 0)) break;
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          d[i] = d[2 * kUnit + i];
          d[kUnit + i] = kept[i * 128];
        }
      }
      if (tile.second) return;
#pragma unroll
      for (int i = 0; i < kUnit; ++i) kept[i * 128] = d[2 * kUnit + i];
    }
  }

 private:
  template <int n>
  __device__ __forceinline__ void keep_target(const float (&d)[n], const Rows& rows, const TileAt& tile,
                                              const Fragment& at) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::int64_t offset = rows.target[h] - tile.column;
      const bool here = offset >= 0 && offset < 2 * n;
      if (!__any_sync(kWarp, here)) continue;
      const float x = pick(d, h, static_cast<int>(offset));
      if (here && in_this_lane(static_cast<int>(offset))) target_logit[at.row + 8 * h] = x;
    }
  }

  // One block of 64 rows, in the first two units: logit j, e of row h of this thread is at 4 j + 2 h + e.
  template <int n>
  __device__ __forceinline__ void block(const float (&d)[n], int number, const Rows& rows, int row,
                                        const LiveShape& live) const {
    // Step by step for both rows, so that the exchanges between lanes of one hide behind the other's.
    float m[2], s[2], u[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      m[h] = max_nan(d[2 * h], d[2 * h + 1]);
#pragma unroll
      for (int j = 1; j < 16; ++j) m[h] = max_nan(m[h], max_nan(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]));
    }
    // The rounding of z keeps the order of x, so that the largest z is that of the largest x.
#pragma unroll
    for (int h = 0; h < 2; ++h) m[h] = quad_max(m[h]) * rows.inverse_tau[h];
#pragma unroll
    for (int h = 0; h < 2; ++h) own_sums(d, 2 * h, rows.inverse_tau[h], m[h], s[h], u[h]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s[h] = quad_sum(s[h]);
      if constexpr (entropy) u[h] = quad_sum(u[h]);
    }
    if (threadIdx.x % 4 != 0) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h >= live.rows) continue;
      const std::int64_t to = number * stride + row + 8 * h;
      max[to] = m[h];
      sum[to] = s[h];
      if constexpr (entropy) entropy_sum[to] = u[h];
    }
  }

  template <int n>
  __device__ __forceinline__ static void own_sums(const float (&d)[n], int first, float it, float m,
                                                  float& sum, float& spread) {
    float sums[2], spreads[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float s[4], u[4];
#pragma unroll
      for (int j = 0; j < 16; j += 4) {
        float distance[4], term[4];
#pragma unroll
        for (int q = 0; q < 4; ++q)
          term[q] = distance[q] = fmaxf(d[first + 4 * (j + q) + e] * it - m, order::RowV1::kCut);
        exp_of_numbers(term);
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          s[q] = j == 0 ? term[q] : s[q] + term[q];
          if constexpr (entropy) u[q] = order::fma(term[q], -distance[q], j == 0 ? 0.0f : u[q]);
        }
      }
      sums[e] = (s[0] + s[1]) + (s[2] + s[3]);
      if constexpr (entropy) spreads[e] = (u[0] + u[1]) + (u[2] + u[3]);
    }
    sum = sums[0] + sums[1];
    if constexpr (entropy) spread = spreads[0] + spreads[1];
  }
};

// 16-bit results of a warpgroup, through shared memory to the copy engine: each warp has two buffers of 16 rows x 64
// columns, rows of 128 bytes with the engine's swizzle.
struct WarpStore {
  static constexpr int kBufferBytes = 16 * 128, kBytes = 2 * kBufferBytes;  // of a warp
  char* buffers;
  const CUtensorMap* map;
  int row;  // of the warp's first element

  // 64 columns from `column` on, the `number`-th of a run; `pair(j, h)` gives the two elements of this thread at 8 j.
  template <class Pair>
  __device__ __forceinline__ void chunk(int column, int number, Pair pair) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    char* buffer = buffers + (number % 2) * kBufferBytes;
    // The run before may have ended on either buffer.
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
      tensor_store(map, column, row, buffer);
      store_commit();
    }
  }
};

// P of a tile. `sloped`: rows may have an entropy gradient. `scattered`: row i is row to[i] of P, and rows beyond the live
// ones are not written; else they are +0.
template <class T, bool sloped, bool scattered = false>
struct StoreP {
  static constexpr int kStagingBytes = scattered ? 0 : 4 * kConsumers * WarpStore::kBytes;
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = false;
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
  __device__ __forceinline__ void run(float (&d)[n], int, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    const Rows rows(
        inputs, tile, live, [&](int row) { return p_rows[row].reference; },
        [&](int row) { return p_rows[row].kind; });
    columns.prepare(d, Fragment(tile).column);
    write<n / kUnit>(d, tile, tile.column, live, rows, staging);
  }
  __device__ void end() const {
    if (!scattered && threadIdx.x % 32 == 0) store_wait_read<0>();
  }

  // P of the first `units` units of d, whose first is at `column` of P's; d is used up.
  template <int units, int n>
  __device__ __forceinline__ void write(float (&d)[n], const TileAt& tile, int column, const LiveShape& live,
                                        const Rows& rows, char* staging) const {
    const Fragment at(tile);
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const WarpStore store{staging + warp * WarpStore::kBytes, &out, tile.row + 16 * warp};
    const auto pair = [&](int j, int h) { return pair_of<T>(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]); };
    // Unit by unit: the arithmetic of one runs while the copy engine reads the one before.
#pragma unroll 1
    for (int number = 0; column < columns.vocab; ++number, column += 64) {
#pragma unroll
      for (int h = 0; h < 2; ++h) fill(d, column, rows, h, at.row + 8 * h);
      if constexpr (scattered)
        scatter(pair, at.row, column, live);
      else
        store.chunk(column, number, pair);
      if (number + 1 == units) break;
#pragma unroll
      for (int i = 0; i < (units - 1) * kUnit; ++i) d[i] = d[i + kUnit];
    }
  }

 private:
  static constexpr int kUnit = 32;  // a thread's elements of 64 rows x 64 columns

  // A unit, row by row; there is room up to a multiple of 64 columns.
  template <class Pair>
  __device__ __forceinline__ void scatter(Pair pair, int first, int column, const LiveShape& live) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + 8 * h;
      if (row >= live.rows) continue;
      T* line = p + to[row] * p_stride + column + 2 * (threadIdx.x % 4);
#pragma unroll
      for (int j = 0; j < 8; ++j) *reinterpret_cast<std::uint32_t*>(line + 8 * j) = pair(j, h);
    }
  }

  // P of row h of a unit from `unit_column` of P on, in place.
  template <int n>
  __device__ __forceinline__ void fill(float (&d)[n], int unit_column, const Rows& rows, int h,
                                       int row) const {
    order::PRow form{};
    if constexpr (sloped)
      if (rows.kind[h] == order::RowClass::kFinite) form = p_rows[row];
    if constexpr (sloped) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        float& value = d[2 * h + 4 * (i / 2) + i % 2];
        value = order::p_column(form, value * rows.inverse_tau[h]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        float distance[4], term[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          term[i] = distance[i] =
              d[2 * h + 4 * (j + i / 2) + i % 2] * rows.inverse_tau[h] - rows.reference[h];
        exp_of_numbers(term);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          d[2 * h + 4 * (j + i / 2) + i % 2] = distance[i] < order::RowV1::kCut ? 0.0f : term[i];
      }
    }
    const bool number = rows.kind[h] == order::RowClass::kFinite;
    const std::int64_t target = rows.target[h] - (column + unit_column);
    const bool here = number && target >= 0 && target < 64;
    if (!__any_sync(kWarp, here || !number)) return;
    const float all = rows.kind[h] == order::RowClass::kNan ? order::canonical_nan<float>() : 0.0f;
    const int mine = here ? static_cast<int>(target) - 2 * (static_cast<int>(threadIdx.x) % 4) : -1;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& value = d[2 * h + 4 * (i / 2) + i % 2];
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
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = Statistics::template kPairs<Tile>;
  Statistics statistics;
  P p;
  const float* reference;  // of the first row of the range

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    const typename P::Rows rows(
        p.inputs, tile, live, [&](int row) { return reference[row]; },
        [](int) { return order::RowClass::kFinite; });
    statistics.run_then(d, half, tile, live, staging, [&](int column) {
      p.template write<2>(d, tile, column, live, rows, staging + Statistics::kStagingBytes / kConsumers);
    });
  }
  __device__ void end() const { p.end(); }
};

}  // namespace samebits::cuda
