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
  static constexpr int kColumns = kBlocks * order::kBlock;
  static constexpr int kCopies = kBytes / 512;              // of 16 bytes per lane
  static constexpr int kStep = 512 / kBlockBytes * kPitch;  // 512 bytes are whole blocks

  // Where the byte at `offset` of a tile lies in shared memory.
  __device__ static int place(int offset) { return offset / kBlockBytes * kPitch + offset % kBlockBytes; }
};

// How far the rows of 16-bit types may lie from a multiple of 4 bytes: 0 or 2. A tile of such a row is copied from 2
// bytes before it, so that in shared memory each of its blocks begins 2 bytes late and has a word more.
template <class T>
__device__ __forceinline__ int shift_of(const T* row) {
  return sizeof(T) == 4 ? 0 : static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 4);
}

// Copies the first `columns` columns of a tile from `x`, aligned to 16 bytes; `to` is this lane's place. Bytes behind them
// become zero.
template <class T>
__device__ __forceinline__ void copy_first(std::uint32_t to, const T* x, int columns, int lane) {
  constexpr int kCount = 16 / static_cast<int>(sizeof(T));
#pragma unroll 1
  for (int i = 0; i < Tile<T>::kCopies; ++i) {
    const int at = (i * 32 + lane) * kCount, left = min(max(columns - at, 0), kCount);
    copy16_partial(to + i * Tile<T>::kStep, left > 0 ? x + at : x, left * static_cast<int>(sizeof(T)));
  }
}

// Copies the tiles of one warp, one after the other, from a row aligned to its element size.
template <class T>
class TileCopy {
 public:
  using Tiles = Tile<T>;

  // `first` is the warp's first tile, `end` the end of the row; tiles are `stride` bytes apart.
  __device__ __forceinline__ TileCopy(char* shared, const T* first, const T* end, int stride, int lane)
      : to_(shared_address(shared) + Tiles::place(lane * 16)),
        stride_(stride),
        aligned_(reinterpret_cast<std::uintptr_t>(first) % 16 == 0),
        from_(reinterpret_cast<const char*>(first) + lane * 16),
        end_(reinterpret_cast<const char*>(end)) {}

  // Starts the copies of the next tile; `whole`: all of it lies within the row.
  __device__ __forceinline__ void start(bool whole, int lane) {
    if (whole && aligned_) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) copy16(to_ + i * kStep, from_ + i * 512);
    } else if (aligned_) {
#pragma unroll 1
      for (int i = 0; i < kCopies; ++i) {
        const int bytes = left(from_ + i * 512, 16);
        copy16_partial(to_ + i * kStep, bytes > 0 ? from_ + i * 512 : from_, bytes);
      }
    } else {
      start_words(from_ - lane * 16, to_ - Tiles::place(lane * 16), whole, lane);
    }
    from_ += stride_;
  }

 private:
  static constexpr int kCopies = Tiles::kCopies, kStep = Tiles::kStep;

  // 4 bytes per lane, block by block, from `tile` or 2 bytes before it and then one word more.
  __device__ __forceinline__ void start_words(const char* tile, std::uint32_t to, bool whole, int lane) {
    constexpr int kWordCopies = Tiles::kBlockBytes / 128;
    const bool shifted = reinterpret_cast<std::uintptr_t>(tile) % 4 != 0;
    const char* from = tile - (shifted ? 2 : 0) + lane * 4;
    to += lane * 4;
#pragma unroll 1
    for (int b = 0; b < Tiles::kBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < kWordCopies; ++i) {
        if (whole)
          copy4(to + i * 128, from + i * 128);
        else
          copy4_partial(to + i * 128, left(from, i * 128 + 4) > i * 128 ? from + i * 128 : tile,
                        max(left(from, i * 128 + 4) - i * 128, 0));
      }
      if (shifted && lane == 0) {
        const int bytes = max(left(from, Tiles::kBlockBytes + 4) - Tiles::kBlockBytes, 0);
        copy4_partial(to + Tiles::kBlockBytes, bytes > 0 ? from + Tiles::kBlockBytes : tile, bytes);
      }
      from += Tiles::kBlockBytes;
      to += Tiles::kPitch;
    }
  }

  // Bytes of the row from `at` on, `most` at most.
  __device__ __forceinline__ int left(const char* at, int most) const {
    return static_cast<int>(
        min(max(static_cast<std::int64_t>(end_ - at), std::int64_t{0}), std::int64_t{most}));
  }

  std::uint32_t to_;
  int stride_;
  bool aligned_;
  const char *from_, *end_;
};

// Columns of the last block that do not exist count as -inf. `columns` of this tile exist; blocks begin `shift` late.
template <class T>
__device__ __forceinline__ void fill_missing(char* shared, int columns, int shift, T minus_inf, int lane) {
  char* block = shared + columns / order::kBlock * Tile<T>::kPitch + shift;
#pragma unroll 1
  for (int c = columns % order::kBlock + lane; c < order::kBlock; c += 32)
    reinterpret_cast<T*>(block)[c] = minus_inf;
}

}  // namespace samebits::cuda
