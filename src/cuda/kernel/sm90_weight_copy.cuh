// What a warpgroup does with its tile of grad_weight where it is made of few rows: a product that is shorter than its end.
// CONTRACT section 4, point 6.
#pragma once

#include "cuda/kernel/sm90_store.cuh"
#include "cuda/launch/head_weight.h"

namespace samebits::cuda {

// Every element scaled and rounded, to the copy engine: own stores hold up whatever is loaded next. Columns of the head (rows
// here) that are somebody's target are kept in fp32 too, and written once more by finish_target_rows: what their rows add
// would keep the other warpgroup waiting, and in a cluster the other CTA.
template <class T>
struct CopyWeight {
  static constexpr int kBuffers = 6, kBufferBytes = kBuffers * 16 * 128;
  static constexpr int kStagingBytes = 4 * kConsumers * kBufferBytes;
  static constexpr bool kParts = false, kLong = false, kIsShort = true;
  template <class Tile>
  static constexpr bool kPairs = false;
  float* kept;        // [positions, H]: the row whose run begins there
  std::int64_t size;  // H
  const IdRun* runs;  // of the task's first column
  const HeadScalars* scalars;
  CUtensorMap map;  // of grad_weight, boxes of 64 columns x 16 rows

  // 2^n as two factors: rounded once, for the second one is 1 unless n is 128.
  struct Common {
    float most, rest;
  };
  __device__ __forceinline__ Common start() const {
    const int exponent = order::weight_exponent(__uint_as_float(scalars->largest_scale));  // at most 128
    return {static_cast<float>(order::power_of_2(min(exponent, 127))), exponent > 127 ? 2.0f : 1.0f};
  }
  // What a lane knows of its row of the tile before the products, so that nobody waits for it behind them: each warp has 32
  // rows, 16 of each half.
  __device__ __forceinline__ IdRun prepare(const TileAt& tile, const LiveShape& live) const {
    const int row = tile.row + lane() / 16 * kHalfRows + 16 * warp() + lane() % 16;
    return row < live.rows ? runs[row] : IdRun{};
  }

  template <int n>
  __device__ __forceinline__ void run(const float (&d)[n], int half, const TileAt& tile, char* staging,
                                      const Common& up, const IdRun& own) const {
    static_assert(2 * n / kUnit == kBuffers);
    const unsigned waiting = __ballot_sync(kWarp, own.first != own.end) >> 16 * half & 0xffff;
    if (waiting != 0) keep_rows(d, half, tile, waiting, own.first);
    WarpStore<kBuffers>{staging + warp() * kBufferBytes, &map, tile.row + 16 * warp()}.half_of_buffers(
        tile.column, static_cast<int>(size), half, [&](int unit, int j, int h) {
          const int i = unit * kUnit + 4 * j + 2 * h;
          // The +0 makes a -0 of the scaling +0, and no number is lost at the second factor.
          return pair_of<T>(order::fma(d[i] * up.most, up.rest, 0.0f),
                            order::fma(d[i + 1] * up.most, up.rest, 0.0f));
        });
  }
  __device__ void end() const {
    if (lane() == 0) store_wait_read<0>();
  }

 private:
  static constexpr int kUnit = 32;  // a thread's elements of 64 rows x 64 columns
  __device__ __forceinline__ static int lane() { return thread_number() % 32; }
  __device__ __forceinline__ static int warp() { return thread_number() / 32 % 4; }

  template <int n>
  __device__ __forceinline__ void keep_rows(const float (&d)[n], int half, const TileAt& tile,
                                            unsigned waiting, std::uint32_t first) const {
    const Fragment at(tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = lane() / 4 + 8 * h;
      const std::int64_t place = __shfl_sync(kWarp, first, 16 * half + row);
      if ((waiting >> row & 1) == 0) continue;
      auto* to = reinterpret_cast<float2*>(kept + place * size + at.column);
#pragma unroll
      for (int j = 0; j < n / 4; ++j)
        if (at.column + 8 * j < size) to[4 * j] = {d[4 * j + 2 * h], d[4 * j + 2 * h + 1]};
    }
  }
};

}  // namespace samebits::cuda
