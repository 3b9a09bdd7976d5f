// The ring of stages through which the operands of a product on SM90 pass, and its places in shared memory.
#pragma once

#include "cuda/kernel/sm90_tiles.cuh"
#include "cuda/prim/tma.cuh"

namespace samebits::cuda {

// The copy engine's swizzle counts from multiples of 1024.
extern __shared__ __align__(1024) char sm90_memory[];

// Places in shared memory that the compiler knows: none of them takes a register.
template <class Tile, class Epilogue>
struct ProductShared {
  static constexpr int kMost = 227 << 10, kBarrierBytes = 384;
  static constexpr int kStages =
      std::min((kMost - kBarrierBytes - Epilogue::kStagingBytes) / Tile::kStageBytes, 8);
  static constexpr int kStagingAt = kStages * Tile::kStageBytes;
  static constexpr int kBarriersAt = kStagingAt + Epilogue::kStagingBytes;
  static constexpr int kBytes = kBarriersAt + kBarrierBytes;
  static constexpr int kWalkAt = kBarriersAt + (2 * kStages + 2) * 8;
  static constexpr int kRestsAt = kBytes - 4 * kConsumers * static_cast<int>(sizeof(int4));
  static_assert(kStages >= 3 && kWalkAt + static_cast<int>(sizeof(Walk)) <= kRestsAt);

  __device__ static char* stage(int number) { return sm90_memory + number * Tile::kStageBytes; }
  __device__ static char* staging(int consumer) {
    return sm90_memory + kStagingAt + consumer * (Epilogue::kStagingBytes / kConsumers);
  }
  __device__ static Barrier* full(int stage) { return barriers() + stage; }
  __device__ static Barrier* empty(int stage) { return barriers() + kStages + stage; }
  __device__ static Barrier* turn(int consumer) { return barriers() + 2 * kStages + consumer; }
  // What a warp puts aside while it has an epilogue.
  __device__ static volatile int* rest() {
    return reinterpret_cast<volatile int*>(sm90_memory + kRestsAt) + (thread_number() / 32 - 4) * 4;
  }
  __device__ static Walk& walk() { return *reinterpret_cast<Walk*>(sm90_memory + kWalkAt); }

 private:
  __device__ static Barrier* barriers() { return reinterpret_cast<Barrier*>(sm90_memory + kBarriersAt); }
};

// Place in the ring.
template <int stages>
struct RingPlace {
  int stage = 0, parity = 0;
  __device__ void next() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ void skip(int steps) {
    stage += steps;
    parity ^= stage / stages % 2;
    stage %= stages;
  }
};

template <class Tile>
__device__ __forceinline__ void load_stage(char* stage, const CUtensorMap* a, const CUtensorMap* b,
                                           const TileAt& tile, int k, Barrier* full, int rank) {
  if constexpr (Tile::kTransposedA) {
    tensor_load(stage, a, tile.row, k, full);
    tensor_load(stage + Tile::kBytesA / 2, a, tile.row + 64, k, full);
  } else {
    tensor_load(stage, a, k, tile.row, full);
  }
  char* to = stage + Tile::kBytesA;
  constexpr std::uint16_t kAll = (1 << Tile::kCluster) - 1;
  const auto bring = [&](int offset, int inner, int outer) {
    if constexpr (Tile::kCluster == 1)
      tensor_load(to + offset, b, inner, outer, full);
    else
      tensor_load_multicast(to + offset, b, inner, outer, full, kAll);
  };
  if constexpr (Tile::kTransposedB) {
#pragma unroll
    for (int chunk = 0; chunk < Tile::kColumns / 64; ++chunk)
      if (chunk % Tile::kCluster == rank) bring(chunk * 64 * kTileDepth * 2, tile.column + chunk * 64, k);
  } else {
    const int first = rank * Tile::kBoxRowsB;
    bring(first * kTileDepth * 2, k, tile.column + first);
  }
}

// Stages of a part of K. They begin at multiples of their depth, where rows of 128 bytes are whole lines of memory.
__device__ __forceinline__ int lead_of(const Segment& part) { return part.first & (kTileDepth - 1); }
__device__ __forceinline__ int steps_of(const Segment& part) {
  return part.columns == 0 ? 0 : (lead_of(part) + part.columns + kTileDepth - 1) / kTileDepth;
}

__device__ __forceinline__ void warpgroup_sync(int consumer) {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + consumer) : "memory");
}

// A stage of A, K dense: +0 outside of the elements [first, end) of K, multiples of 16. By one warpgroup.
template <int rows>
__device__ __forceinline__ void clear_outside(char* stage, int first, int end, int consumer) {
  const int thread = thread_number() % 128;
#pragma unroll
  for (int i = 0; i < rows / 16; ++i) {
    const int row = thread / 8 + 16 * i, chunk = thread % 8;
    if (8 * chunk < first || 8 * chunk >= end)
      *reinterpret_cast<uint4*>(stage + row * 128 + ((chunk ^ (row % 8)) * 16)) = uint4{};
  }
  shared_to_async();
  warpgroup_sync(consumer);
}

}  // namespace samebits::cuda
