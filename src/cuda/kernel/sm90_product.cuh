// Products of 16-bit matrices on SM90 under tc16.v1: D[m, n] = sum over k of A[m, k] B[n, k], a segment of K or several.
//
// A persistent kernel. One warp brings tiles of A and B into a ring of stages; two warpgroups take turns: while one
// multiplies its tile, the other hands its own, in registers, to the epilogue, so that the tensor cores never wait for
// an epilogue that is shorter than a product. CTAs of a cluster have the same columns and share B. Every element is one
// chain of steps of 16 products, ascending, whatever the tiles, the cluster and the order of tiles.
#pragma once

#include "cuda/kernel/sm90_pace.cuh"
#include "cuda/kernel/sm90_turns.cuh"
#include "cuda/prim/cluster.cuh"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/pair.cuh"
#include "cuda/prim/reduce.cuh"

namespace samebits::cuda {

// An epilogue with a member `largest` wants the largest magnitude of B there, as the bits of a float. The warps beside the
// copying one take it from the stages: every tile of the first rows, each CTA of a cluster its share.
template <class Epilogue>
inline constexpr bool kFindsLargest = requires(const Epilogue& epilogue) { epilogue.largest; };
inline constexpr int kReaders = 3;  // warps
// Of the copying warpgroup and of the two others: all that a launch with 168 for every thread has.
template <class Epilogue>
inline constexpr int kCopyRegisters = kFindsLargest<Epilogue> ? 40 : 24;
template <class Epilogue>
inline constexpr int kProductRegisters = (3 * 168 - kCopyRegisters<Epilogue>) / 2;

template <class Tile, class Shared, class Epilogue>
__device__ __forceinline__ void find_largest(const ProductShape& shape, int rank, std::uint32_t* largest) {
  constexpr int kThreads = 32 * kReaders, kShare = Tile::kBytesB / Tile::kCluster, kAhead = 4;
  static_assert(kShare % (kAhead * 16 * kThreads) == 0);
  const int place = Tile::kBytesA + rank * kShare + 16 * (thread_number() - 32);
  const int lane = thread_number() % 32;
  RingPlace<Shared::kStages> ring;
  std::uint32_t most[kAhead] = {};  // of each half; several, for each waits for the one before
  for (int number = 0;; ++number) {
    const Turn turn = find_turn<Tile, Epilogue::template kPairs<Tile>>(number, shape, Shared::walk());
    if (turn.end) break;
    if (!turn.any) continue;
    const bool reads = turn.tile.row < Tile::kRows * Tile::kCluster;
    for (int step = steps_of(turn.part); step > 0; --step, ring.next()) {
      barrier_wait(Shared::full(ring.stage), ring.parity);
      if (reads) {
        const char* const from = Shared::stage(ring.stage) + place;
#pragma unroll 1
        for (int i = 0; i < kShare / (16 * kThreads); i += kAhead) {
          uint4 vectors[kAhead];
#pragma unroll
          for (int a = 0; a < kAhead; ++a)
            vectors[a] = *reinterpret_cast<const uint4*>(from + (i + a) * 16 * kThreads);
#pragma unroll
          for (int a = 0; a < kAhead; ++a)
            for (const std::uint32_t word : {vectors[a].x, vectors[a].y, vectors[a].z, vectors[a].w})
              most[a] = __vmaxu2(most[a], word & 0x7fff7fffu);
        }
      }
      __syncwarp();
      if (lane < Tile::kCluster) barrier_arrive(Shared::empty(ring.stage), lane);
    }
  }
  using Element = typename Tile::Element;
#pragma unroll
  for (int a = 1; a < kAhead; ++a) most[0] = __vmaxu2(most[0], most[a]);
  raise_to(largest, max(__float_as_uint(pair_value<Element>(most[0], 0)),
                        __float_as_uint(pair_value<Element>(most[0], 1))));
}

template <class Tile, class Epilogue>
__global__ void __launch_bounds__(kProductThreads, 1)
    sm90_product(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 const __grid_constant__ ProductShape shape, const __grid_constant__ Epilogue epilogue) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Shared = ProductShared<Tile, Epilogue>;
  const int rank = Tile::kCluster == 1 ? 0 : cluster_rank();
  if (threadIdx.x == 0) {
    if (shared_address(sm90_memory) % 1024 != 0) __trap();
    for (int i = 0; i < Shared::kStages; ++i) {
      barrier_init(Shared::full(i), 1);
      barrier_init(Shared::empty(i), Tile::kCluster * (kFindsLargest<Epilogue> ? 1 + kReaders : 1));
    }
    for (int i = 0; i < kConsumers; ++i) barrier_init(Shared::turn(i), 4);  // warps
    barrier_init_done();
  }
  if constexpr (Tile::kCluster == 1)
    __syncthreads();
  else
    cluster_sync();
  if (!shape.beside_kernel_ahead) wait_for_kernel_ahead();
  let_kernel_behind_start();
  if (threadIdx.x == 0) Shared::walk() = Walk::of<Tile, Epilogue::template kPairs<Tile>>(shape, rank);
  __syncthreads();

  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCopyRegisters<Epilogue>));
    if (threadIdx.x == 0) {
      prefetch_map(&map_a);
      prefetch_map(&map_b);
      RingPlace<Shared::kStages> ring;
      Pace pace(shape, rank);
      for (int number = 0;; ++number) {
        const Turn turn = find_turn<Tile, Epilogue::template kPairs<Tile>>(number, shape, Shared::walk());
        if (turn.end) break;
        if (!turn.any) continue;
        const int end = turn.part.first + turn.part.columns;
        for (int k = turn.part.first - lead_of(turn.part); k < end; k += kTileDepth, ring.next()) {
          pace.stage(Tile::kCluster);
          barrier_wait(Shared::empty(ring.stage), ring.parity ^ 1);
          barrier_expect(Shared::full(ring.stage), Tile::kStageBytes);
          load_stage<Tile>(Shared::stage(ring.stage), &map_a, &map_b, turn.tile, k, Shared::full(ring.stage),
                           rank);
        }
      }
      pace.end();
      if (shape.beside_kernel_ahead) wait_for_kernel_ahead();
    }
    if constexpr (kFindsLargest<Epilogue>)
      if (threadIdx.x >= 32) find_largest<Tile, Shared, Epilogue>(shape, rank, epilogue.largest);
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kProductRegisters<Epilogue>));
    if constexpr (kIsShort<Epilogue>)
      take_short_turns<Tile, Shared>(shape, epilogue);
    else
      take_turns<Tile, Shared>(shape, epilogue);
    epilogue.end();
  }
  if constexpr (Tile::kCluster > 1) cluster_sync();
#else
  __trap();  // compiled for SM90a alone; the launch layer checks
#endif
}

}  // namespace samebits::cuda
