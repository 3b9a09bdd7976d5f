// What a warpgroup does with 64 rows of its tile of logits: the statistics of their blocks. A row's block lies in the four lanes
// of a quad, and lane i holds the columns 8 j + 2 i and 8 j + 2 i + 1 of every j: whole lanes (c, q) of CONTRACT section 1,
// step 4.
#pragma once

#include "cuda/kernel/sm90_store.cuh"
#include "cuda/prim/reduce.cuh"
#include "order/row.h"

namespace samebits::cuda {

// Logits on their way: with the bias, and what is needed of their rows.
template <class T>
struct HeadColumns {
  const T* bias;  // [vocab] or null
  std::int64_t bias_stride;
  int vocab;
  std::uint32_t zero = 0;  // which the compiler does not know to be 0, for exp_of_numbers

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
  const int mine = offset - 2 * (thread_number() % 4);
  float found = 0;
#pragma unroll
  for (int i = 0; i < n / 2; ++i)
    if (mine == 8 * (i / 2) + i % 2) found = d[4 * (i / 2) + 2 * h + i % 2];
  return found;
}
__device__ __forceinline__ bool in_this_lane(int offset) { return offset % 8 / 2 == thread_number() % 4; }

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

// A group of numbers at once. The compiler, which counts on fewer registers than there are, would do them one by one, each
// waiting for itself: so the last step of each is made to look as if it took something of another one that is halfway.
template <int n>
__device__ __forceinline__ void exp_of_numbers(float (&x)[n], std::uint32_t zero) {
  using order::Exp32, order::fma;
  float t[n], p[n], one[n];
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
  for (int i = 0; i < n; ++i)
    one[i] = __uint_as_float((__float_as_uint(p[(i + 2) % n]) & zero) | __float_as_uint(1.0f));
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], Exp32::kC2);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], Exp32::kC1);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], x[i], one[i]);
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = __uint_as_float(__float_as_uint(p[i]) + (__float_as_uint(t[i]) << 23));
}

// The statistics of whole blocks. Two tiles of 192 columns side by side hold three blocks: the first tile keeps its half of the one
// between them, in shared memory, where each thread finds what it left there itself.
template <class T, bool entropy>
struct BlockStatistics {
  static constexpr int kUnit = 32;  // a thread's elements of 64 rows x 64 columns
  static constexpr int kStagingBytes = kConsumers * 2 * kUnit * 128 * 4;
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = Tile::kColumns % order::kBlock != 0;
  HeadColumns<T> columns;
  int first_column;  // of the head
  HeadRowInputs inputs;
  float *max, *sum, *entropy_sum;  // [blocks][stride], of the first column's block on
  std::int64_t stride;
  float* target_logit;  // of the first row of the range

  struct Rows {
    float inverse_tau[2];
    int target[2];
    __device__ Rows(const BlockStatistics& epilogue, const TileAt& tile, const LiveShape& live) {
      const Fragment at(tile);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = at.row + 8 * h;
        const bool is_row = row < live.rows;
        inverse_tau[h] = is_row ? epilogue.inputs.factor(row) : 1.0f;
        target[h] = is_row ? static_cast<int>(epilogue.inputs.target[row]) : -1;
      }
    }
  };

  template <int n>
  __device__ __forceinline__ void run(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                      char* staging) const {
    run_then(d, half, tile, live, Rows(*this, tile, live), staging, [](int) {});
  }
  __device__ void end() const {}

  // then(column) is called when the block from that column on is done: its logits are the first two units of d, which
  // may be used up.
  template <int n, class RowsOf, class Then>
  __device__ __forceinline__ void run_then(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                           const RowsOf& rows, char* staging, Then then) const {
    constexpr bool kWhole = n == 2 * kUnit;  // a tile is a block
    static_assert(kWhole || n == 3 * kUnit);
    if (tile.row >= live.rows) return;
    const Fragment at(tile);
    columns.prepare(d, at.column);
    keep_target(d, rows, tile, at);
    if constexpr (kWhole) {
      block(d, tile.column / order::kBlock, rows, at.row, live);
      then(tile.column);
    } else {
      float* const kept = reinterpret_cast<float*>(staging) + half * kUnit * 128 + thread_number() % 128;
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
          if (i % 4 == 3) asm volatile("" ::: "memory");  // few at a time: registers are short
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
  template <int n, class RowsOf>
  __device__ __forceinline__ void keep_target(const float (&d)[n], const RowsOf& rows, const TileAt& tile,
                                              const Fragment& at) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int offset = rows.target[h] - first_column - tile.column;
      const bool here = offset >= 0 && offset < 2 * n;
      if (!__any_sync(kWarp, here)) continue;
      const float x = pick(d, h, offset);
      if (here && in_this_lane(offset)) target_logit[at.row + 8 * h] = x;
    }
  }

  // One block of 64 rows, in the first two units: logit j, e of row h of this thread is at 4 j + 2 h + e.
  template <int n, class RowsOf>
  __device__ __forceinline__ void block(const float (&d)[n], int number, const RowsOf& rows, int row,
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
    for (int h = 0; h < 2; ++h) own_sums(d, 2 * h, rows.inverse_tau[h], m[h], columns.zero, s[h], u[h]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s[h] = quad_sum(s[h]);
      if constexpr (entropy) u[h] = quad_sum(u[h]);
    }
    if (thread_number() % 4 != 0) return;
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
                                                  std::uint32_t zero, float& sum, float& spread) {
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
        exp_of_numbers(term, zero);
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

}  // namespace samebits::cuda
