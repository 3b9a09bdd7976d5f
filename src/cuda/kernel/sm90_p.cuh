// What a warpgroup does with 64 rows of its tile of logits: P, alone or beside the statistics of the blocks.
#pragma once

#include "cuda/kernel/sm90_statistics.cuh"
#include "order/p_form.h"

namespace samebits::cuda {

// How P is written: through shared memory, which takes the fewest instructions; by the threads themselves, where a stage of
// the ring needs that memory more; or row i at row to[i] of P, and rows beyond the live ones, elsewhere +0, not at all.
enum class PWay { kCopied, kDirect, kScattered };

// P of a tile. `sloped`: rows may have an entropy gradient.
template <class T, bool sloped, PWay way = PWay::kCopied>
struct StoreP {
  static constexpr int kStagingBytes = way == PWay::kCopied ? 4 * kConsumers * WarpStore<2>::kBytes : 0;
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = false;
  CUtensorMap out;         // copied: of P, boxes of 64 columns x 16 rows
  HeadColumns<T> columns;  // `vocab`: columns of P
  HeadRowInputs inputs;
  const order::PRow* p_rows;  // of the first row of the range
  std::int64_t column;        // of P's first column
  T* p;                       // direct or scattered
  std::int64_t p_stride;
  int rows_of_p;           // direct
  const std::int32_t* to;  // scattered

  struct Rows {
    float inverse_tau[2], reference[2];
    int target[2];
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
        target[h] = is_row ? static_cast<int>(inputs.target[row]) : -1;
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
    if (way == PWay::kCopied && thread_number() % 32 == 0) store_wait_read<0>();
  }

  // P of the first `units` units of d, whose first is at `column` of P's; d is used up.
  template <int units, int n>
  __device__ __forceinline__ void write(float (&d)[n], const TileAt& tile, int column, const LiveShape& live,
                                        const Rows& rows, char* staging) const {
    const Fragment at(tile);
    const int warp = thread_number() / 32 % 4;
    const WarpStore<2> store{staging + warp * WarpStore<2>::kBytes, &out, tile.row + 16 * warp};
    const auto pair = [&](int j, int h) { return pair_of<T>(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]); };
    // Unit by unit: the arithmetic of one runs while the copy engine reads the one before.
#pragma unroll 1
    for (int number = 0; column < columns.vocab; ++number, column += 64) {
#pragma unroll
      for (int h = 0; h < 2; ++h) fill(d, column, rows, h, at.row + 8 * h);
      if constexpr (way == PWay::kScattered)
        scatter(pair, at.row, column, live);
      else if constexpr (way == PWay::kDirect)
        write_direct(pair, at.row, column);
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
      T* line = p + to[row] * p_stride + column + 2 * (thread_number() % 4);
#pragma unroll
      for (int j = 0; j < 8; ++j) *reinterpret_cast<std::uint32_t*>(line + 8 * j) = pair(j, h);
    }
  }

  // A unit, 16 bytes a thread: the threads of a quad exchange words until each has those of one run of 8 columns in four.
  template <class Pair>
  __device__ __forceinline__ void write_direct(Pair pair, int first, int column) const {
    const int quad = thread_number() % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + 8 * h;
      auto* line = reinterpret_cast<uint4*>(p + row * p_stride + column);
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        std::uint32_t word[4] = {pair(j, h), pair(j + 1, h), pair(j + 2, h), pair(j + 3, h)};
        turn_quad(word, quad);
        if (row < rows_of_p) line[j + quad] = {word[0], word[1], word[2], word[3]};
      }
    }
  }
  // word[i] of thread k becomes word[k] of thread i.
  __device__ __forceinline__ static void turn_quad(std::uint32_t (&word)[4], int quad) {
#pragma unroll
    for (int step = 1; step <= 2; ++step) {
      const bool upper = (quad & step) != 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t &low = word[i * (3 - step)], &high = word[i * (3 - step) + step];
        const std::uint32_t other = __shfl_xor_sync(kWarp, upper ? low : high, step);
        (upper ? low : high) = other;
      }
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
        exp_of_numbers(term, columns.zero);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          d[2 * h + 4 * (j + i / 2) + i % 2] = distance[i] < order::RowV1::kCut ? 0.0f : term[i];
      }
    }
    const bool number = rows.kind[h] == order::RowClass::kFinite;
    const int target = rows.target[h] - (static_cast<int>(column) + unit_column);
    const bool here = number && target >= 0 && target < 64;
    if (!__any_sync(kWarp, here || !number)) return;
    const float all = rows.kind[h] == order::RowClass::kNan ? order::canonical_nan<float>() : 0.0f;
    const int mine = here ? target - 2 * (thread_number() % 4) : -1;
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
  using P = StoreP<T, false, PWay::kDirect>;
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
    statistics.run_then(d, half, tile, live, rows, staging, [&](int column) {
      p.template write<2>(d, tile, column, live, rows, staging + Statistics::kStagingBytes / kConsumers);
    });
  }
  __device__ void end() const { p.end(); }
};

}  // namespace samebits::cuda
