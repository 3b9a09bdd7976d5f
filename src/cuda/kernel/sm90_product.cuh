// Products of 16-bit matrices on SM90 under tc16.v1: D[m, n] = sum over k of A[m, k] B[n, k], at most one segment of K.
//
// A persistent kernel. One warp brings tiles of A and B into a ring of stages; two warpgroups take turns: while one
// multiplies its tile, the other hands its own, in registers, to the epilogue, so that the tensor cores never wait for
// an epilogue that is shorter than a product. CTAs of a cluster have the same columns and share B. Every element is one
// chain of steps of 16 products, ascending, whatever the tiles, the cluster and the order of tiles.
#pragma once

#include "cuda/kernel/sm90_pace.cuh"
#include "cuda/kernel/sm90_stages.cuh"
#include "cuda/prim/cluster.cuh"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/pair.cuh"
#include "cuda/prim/reduce.cuh"
#include "cuda/prim/wgmma.cuh"

namespace samebits::cuda {

// Warp by warp, so that none is a turn behind: a barrier tells its phase from the next one alone. The other warpgroup may
// have to wait for its first stage all the same.
template <class Tile, class Shared>
__device__ __forceinline__ void pass_turn(int consumer) {
  if (threadIdx.x % 32 == 0)
    barrier_arrive(Shared::turn(1 - consumer), Tile::kCluster == 1 ? 0 : cluster_rank());
}

// d = the tile's product, by one warpgroup. `parts`: around this part of K there may be elements of others, which are
// cleared; else they are +0.
template <class Tile, class Shared, bool parts, class Ring>
__device__ __forceinline__ void multiply(float (&d)[Tile::kHalves][Tile::kColumns / 2], Ring& ring,
                                         const Segment& part, int consumer) {
  using Element = typename Tile::Element;
  static_assert(!parts || !Tile::kTransposedA);
  constexpr int kStepA = (Tile::kTransposedA ? 16 * 128 : 16 * 2) / 16;
  constexpr int kStepB = (Tile::kTransposedB ? 16 * 128 : 16 * 2) / 16;
  const bool releases = thread_number() % 128 < Tile::kCluster;
  const int steps = steps_of(part);
  int before = 0, k = 0;
#pragma unroll 1
  do {
    barrier_wait(Shared::full(ring.stage), ring.parity);
    char* const stage = Shared::stage(ring.stage);
    if constexpr (parts) {
      const int first = k == 0 ? lead_of(part) : 0;
      const int last = k + 1 == steps ? (lead_of(part) + part.columns - 1) % kTileDepth : kTileDepth - 1;
      const int end = last / 16 * 16 + 16;
      if (first > 0 || end < kTileDepth) clear_outside<Tile::kRows>(stage, first, end, consumer);
    }
    const std::uint64_t a = tile_descriptor(shared_address(stage), 0);
    const std::uint64_t b = tile_descriptor(shared_address(stage + Tile::kBytesA), 64 * kTileDepth * 2);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileDepth / 16; ++i)
#pragma unroll
      for (int half = 0; half < Tile::kHalves; ++half)
        wgmma<Element, Tile::kColumns, Tile::kTransposedA, Tile::kTransposedB>(
            d[half], a + half * (kHalfRows * kTileDepth * 2 / 16) + i * kStepA, b + i * kStepB,
            k > 0 || i > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (k > 0 && releases) barrier_arrive(Shared::empty(before), static_cast<int>(threadIdx.x % 128));
    before = ring.stage;
    ring.next();
  } while (++k < steps);
  pass_turn<Tile, Shared>(consumer);  // while the last products run
  wgmma_wait<0>();
  if (releases) barrier_arrive(Shared::empty(before), static_cast<int>(threadIdx.x % 128));
}

// The first step overwrites d: no instructions for its initial values.
template <int n>
__device__ __forceinline__ void undefined(float (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "=f"(d[i]));
}

// What an epilogue knows of its tile before the products, so that nobody waits for it behind them.
struct NothingPrepared {};
template <class Epilogue>
__device__ __forceinline__ auto prepared(const Epilogue& epilogue, const Turn& turn, const LiveShape& live) {
  if constexpr (requires { epilogue.prepare(turn.tile, live); })
    return epilogue.prepare(turn.tile, live);
  else
    return NothingPrepared{};
}

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
  std::uint32_t most = 0;  // of each half
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
          for (const uint4& v : vectors)
            for (const std::uint32_t word : {v.x, v.y, v.z, v.w}) most = __vmaxu2(most, word & 0x7fff7fffu);
        }
      }
      __syncwarp();
      if (lane < Tile::kCluster) barrier_arrive(Shared::empty(ring.stage), lane);
    }
  }
  using Element = typename Tile::Element;
  raise_to(largest,
           max(__float_as_uint(pair_value<Element>(most, 0)), __float_as_uint(pair_value<Element>(most, 1))));
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

  RingPlace<Shared::kStages> ring;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCopyRegisters<Epilogue>));
    if (threadIdx.x == 0) {
      prefetch_map(&map_a);
      prefetch_map(&map_b);
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
    const auto own_number = [] { return thread_number() / 128 - 1; };
#pragma unroll 1
    for (int number = 0;; ++number) {
      const int consumer = own_number();
      const Turn turn = find_turn<Tile, Epilogue::template kPairs<Tile>>(number, shape, Shared::walk());
      if (turn.end) break;
      const int depth = turn.any ? turn.part.columns : 0;
      if (number % 2 != consumer) {
        ring.skip(depth > 0 ? steps_of(turn.part) : 0);
        continue;
      }
      const auto state = prepared(epilogue, turn, Shared::walk().live);
      barrier_wait(Shared::turn(consumer), (number / 2 + 1 - consumer) % 2);
      if (depth == 0) pass_turn<Tile, Shared>(consumer);
      if (!turn.any) continue;
      float d[Tile::kHalves][Tile::kColumns / 2];
#pragma unroll
      for (auto& half : d) undefined(half);
      if (depth > 0) {
        multiply<Tile, Shared, Epilogue::kParts>(d, ring, turn.part, consumer);
      } else {
#pragma unroll
        for (int i = 0; i < Tile::kColumns / 2; ++i) d[0][i] = d[Tile::kHalves - 1][i] = 0;
      }
      if constexpr (Epilogue::kLong) {  // registers are short there, and behind its stores memory is slow
        volatile int* const rest = Shared::rest();
        if (thread_number() % 32 == 0) {
          rest[0] = number;
          rest[1] = ring.stage;
          rest[2] = ring.parity;
        }
      }
      const LiveShape live = Shared::walk().live;
      TileAt half_at = turn.tile;
      const auto finish = [&](auto& part, int half) {
        if constexpr (std::is_same_v<decltype(state), const NothingPrepared>)
          epilogue.run(part, half, half_at, live, Shared::staging(own_number()));
        else
          epilogue.run(part, half, half_at, live, Shared::staging(own_number()), state);
      };
      if constexpr (Epilogue::kLong) {
        // Half by half over the same registers: code that is walked through once a tile has to fit the instruction cache.
#pragma unroll 1
        for (int half = 0;; ++half) {
          finish(d[0], half);
          if (half + 1 == Tile::kHalves) break;
#pragma unroll
          for (int i = 0; i < Tile::kColumns / 2; ++i) d[0][i] = d[Tile::kHalves - 1][i];
          half_at.row += kHalfRows;
        }
      } else {
#pragma unroll
        for (int half = 0; half < Tile::kHalves; ++half) {
          finish(d[half], half);
          half_at.row += kHalfRows;
        }
      }
      if constexpr (requires { epilogue.after(turn.tile, state); }) epilogue.after(turn.tile, state);
      if constexpr (Epilogue::kLong) {
        __syncwarp();
        volatile int* const rest = Shared::rest();
        number = rest[0];
        ring.stage = rest[1];
        ring.parity = rest[2];
        __syncwarp();
      }
    }
    epilogue.end();
  }
  if constexpr (Tile::kCluster > 1) cluster_sync();
#else
  __trap();  // compiled for SM90a alone; the launch layer checks
#endif
}

}  // namespace samebits::cuda
