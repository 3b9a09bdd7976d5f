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

// Copies the tiles of one warp, one after the other, from a row aligned to its element size.
template <class T>
class TileCopy {
 public:
  using Tiles = Tile<T>;

  // `first` is the warp's first tile, `end` the end of the row; tiles are `stride` bytes apart.
  __device__ __forceinline__ TileCopy(char* shared, const T* first, const T* end, int stride, int lane)
      : to_(shared_address(shared) + place(lane * 16)),
        stride_(stride),
        from_(reinterpret_cast<const char*>(first) + lane * 16),
        end_(reinterpret_cast<const char*>(end)) {}

  // Starts the copies of the next tile; `whole`: all of it lies within the row.
  __device__ __forceinline__ void start(bool whole, char* shared, int lane) {
    const auto address = reinterpret_cast<std::uintptr_t>(from_);
    if (whole && address % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) copy16(to_ + i * kStep, from_ + i * 512);
    } else if (address % 16 == 0) {
#pragma unroll 1
      for (int i = 0; i < kCopies; ++i) {
        const std::int64_t left = end_ - from_ - i * 512;
        const int bytes = static_cast<int>(min(max(left, std::int64_t{0}), std::int64_t{16}));
        copy16_partial(to_ + i * kStep, bytes > 0 ? from_ + i * 512 : from_, bytes);
      }
    } else {
      start_unaligned(shared, from_ - lane * 16, lane);
    }
    from_ += stride_;
  }

 private:
  static constexpr int kCopies = Tiles::kBytes / 512;
  static constexpr int kStep =
      512 / Tiles::kBlockBytes * Tiles::kPitch;  // a warp copies whole blocks at a time

  // Where the byte at `offset` of a tile lies in shared memory.
  __device__ static int place(int offset) {
    return offset / Tiles::kBlockBytes * Tiles::kPitch + offset % Tiles::kBlockBytes;
  }

  // Rows that begin at a multiple of 4 bytes are copied 4 at a time; other 16-bit rows through registers.
  __device__ __forceinline__ void start_unaligned(char* shared, const char* tile, int lane) {
    const int bytes = static_cast<int>(min(end_ - tile, std::int64_t{Tiles::kBytes}));
    const std::uint32_t to = shared_address(shared);
    if (sizeof(T) == 4 || reinterpret_cast<std::uintptr_t>(tile) % 4 == 0) {
#pragma unroll 8
      for (int at = lane * 4; at + 4 <= bytes; at += 128) copy4(to + place(at), tile + at);
      if (bytes % 4 == 0) return;
    }
    const int begin = reinterpret_cast<std::uintptr_t>(tile) % 4 == 0 ? bytes / 4 * 4 : 0;
#pragma unroll 8
    for (int at = begin + lane * static_cast<int>(sizeof(T)); at < bytes;
         at += 32 * static_cast<int>(sizeof(T)))
      *reinterpret_cast<T*>(shared + place(at)) = *reinterpret_cast<const T*>(tile + at);
  }

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
