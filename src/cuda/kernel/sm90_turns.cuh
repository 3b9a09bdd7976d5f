// The turns of a warpgroup in a product on SM90: it multiplies its tile, and hands it, in registers, to the epilogue.
#pragma once

#include "cuda/kernel/sm90_stages.cuh"
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
template <class Tile, class Shared, bool parts, class Ring, class Meanwhile>
__device__ __forceinline__ void multiply(float (&d)[Tile::kHalves][Tile::kColumns / 2], Ring& ring,
                                         const Segment& part, int consumer, const Meanwhile& meanwhile) {
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
  meanwhile();
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

template <class Tile, class Shared, class Epilogue>
__device__ __forceinline__ void take_turns(const ProductShape& shape, const Epilogue& epilogue) {
  RingPlace<Shared::kStages> ring;
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
      multiply<Tile, Shared, Epilogue::kParts>(d, ring, turn.part, consumer, [] {});
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
}

// The turns of a warpgroup whose products are shorter than their end, of whole K and single tiles: the next turn is found, and
// prepared, while the products run.
template <class Epilogue>
inline constexpr bool kIsShort = requires { Epilogue::kIsShort; };

template <class Tile, class Shared, class Epilogue>
__device__ __forceinline__ void take_short_turns(const ProductShape& shape, const Epilogue& epilogue) {
  static_assert(!Epilogue::kParts && !Epilogue::template kPairs<Tile>);
  const int consumer = thread_number() / 128 - 1;
  const LiveShape live = Shared::walk().live;
  const Segment part{0, live.depth};
  const int steps = steps_of(part);
  RingPlace<Shared::kStages> ring;
  ring.skip(consumer * steps);
  const auto common = epilogue.start();
  Turn turn = find_turn<Tile, false>(consumer, shape, Shared::walk());
  auto state = epilogue.prepare(turn.tile, live);
  const auto next_turn = [&](int number) {
    turn = find_turn<Tile, false>(number, shape, Shared::walk());
    state = epilogue.prepare(turn.tile, live);
  };
#pragma unroll 1
  for (int number = consumer; turn.any; number += kConsumers) {
    barrier_wait(Shared::turn(consumer), (number / 2 + 1 - consumer) % 2);
    TileAt at = turn.tile;
    const auto own = state;
    float d[Tile::kHalves][Tile::kColumns / 2];
#pragma unroll
    for (auto& half : d) undefined(half);
    if (steps > 0) {
      multiply<Tile, Shared, false>(d, ring, part, consumer, [&] { next_turn(number + kConsumers); });
    } else {
      pass_turn<Tile, Shared>(consumer);
      next_turn(number + kConsumers);
#pragma unroll
      for (int i = 0; i < Tile::kColumns / 2; ++i) d[0][i] = d[Tile::kHalves - 1][i] = 0;
    }
#pragma unroll
    for (int half = 0; half < Tile::kHalves; ++half) {
      epilogue.run(d[half], half, at, Shared::staging(consumer), common, own);
      at.row += kHalfRows;
    }
    ring.skip(steps);
  }
}

}  // namespace samebits::cuda
