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
  static constexpr int kCopies = kBytes / 16 / 32;  // 16-byte copies per lane

  // Where the 16 bytes at `offset` of a tile lie in shared memory.
  __device__ static int place(int offset) { return offset / kBlockBytes * kPitch + offset % kBlockBytes; }

  // Starts the copies of a tile that begins `offset` bytes into a row of `row_bytes`. `row` is aligned to 16.
  __device__ __forceinline__ static void start(char* shared, const char* row, std::int64_t offset,
                                               std::int64_t row_bytes, int lane) {
    const char* from = row + offset + lane * 16;
    char* to = shared + place(lane * 16);
    constexpr int kStep = 512 / kBlockBytes * kPitch;  // a warp copies 512 bytes at a time: whole blocks
    if (offset + kBytes <= row_bytes) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) copy16(to + i * kStep, from + i * 512);
      return;
    }
    const int left = static_cast<int>(row_bytes - offset) - lane * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int bytes = min(max(left - i * 512, 0), 16);
      copy16_partial(to + i * kStep, bytes > 0 ? from + i * 512 : row, bytes);
    }
  }

  // Columns of the last block that do not exist count as -inf. `columns` of this tile exist.
  __device__ __forceinline__ static void fill_missing(char* shared, int columns, T minus_inf, int lane) {
    const int block = columns / order::kBlock;
    for (int c = columns % order::kBlock + lane; c < order::kBlock; c += 32)
      *reinterpret_cast<T*>(shared + block * kPitch + c * static_cast<int>(sizeof(T))) = minus_inf;
  }
};

}  // namespace samebits::cuda
