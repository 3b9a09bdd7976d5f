// A warp's tile of a row in shared memory: 16 blocks of 128 columns, each padded so that lanes reading their own
// blocks meet no bank conflict.
#pragma once

#include <cstdint>

#include "cuda/prim/async_copy.cuh"
#include "order/row.h"

namespace samebits::cuda {

template <class T>
struct Tile {
  static constexpr int kBlocks = 16;
  static constexpr int kBlockBytes = order::kBlock * static_cast<int>(sizeof(T));
  static constexpr int kPitch = kBlockBytes + 16;
  static constexpr int kSharedBytes = kBlocks * kPitch;
  static constexpr int kBytes = kBlocks * kBlockBytes;
};

// Copies the tiles of one warp, one after the other, from a row that is aligned to 16 bytes.
template <class T>
class TileCopy {
 public:
  using Tiles = Tile<T>;

  // `first` is the warp's first tile, `end` the end of the row; tiles are `stride` bytes apart.
  __device__ __forceinline__ TileCopy(char* shared, const T* first, const T* end, int stride, int lane)
      : to_(shared_address(shared) + lane * 16 / Tiles::kBlockBytes * Tiles::kPitch +
            lane * 16 % Tiles::kBlockBytes),
        stride_(stride),
        from_(reinterpret_cast<const char*>(first) + lane * 16),
        end_(reinterpret_cast<const char*>(end)) {}

  // Starts the copies of the next tile; `whole`: all of it lies within the row.
  __device__ __forceinline__ void start(bool whole) {
    constexpr int kStep =
        512 / Tiles::kBlockBytes * Tiles::kPitch;  // a warp copies 512 bytes at a time: whole blocks
    if (whole) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) copy16(to_ + i * kStep, from_ + i * 512);
    } else {
#pragma unroll 1
      for (int i = 0; i < kCopies; ++i) {
        const std::int64_t left = end_ - from_ - i * 512;
        const int bytes = static_cast<int>(min(max(left, std::int64_t{0}), std::int64_t{16}));
        copy16_partial(to_ + i * kStep, bytes > 0 ? from_ + i * 512 : from_, bytes);
      }
    }
    from_ += stride_;
  }

 private:
  static constexpr int kCopies = Tiles::kBytes / 512;
  std::uint32_t to_;
  int stride_;
  const char *from_, *end_;
};

// Columns of the last block that do not exist count as -inf. `columns` of this tile exist.
template <class T>
__device__ __forceinline__ void fill_missing(char* shared, int columns, T minus_inf, int lane) {
  char* block = shared + columns / order::kBlock * Tile<T>::kPitch;
#pragma unroll 1
  for (int c = columns % order::kBlock + lane; c < order::kBlock; c += 32)
    reinterpret_cast<T*>(block)[c] = minus_inf;
}

}  // namespace samebits::cuda
