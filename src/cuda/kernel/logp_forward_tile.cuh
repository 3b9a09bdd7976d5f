// Forward pass at memory speed: fp32, bf16 or fp16 rows aligned to 16 bytes, under row.v1.
//
// Each warp is a pipeline of its own. While it computes on a tile in registers, the copy of its next one into shared
// memory is under way, so the CTA meets only at the end of the row.
#pragma once

#include "cuda/kernel/half_block.cuh"
#include "cuda/kernel/logp_forward_any.cuh"
#include "cuda/kernel/row_finish.cuh"

namespace samebits::cuda {

inline constexpr int kTileWarps = 4;

template <class T>
__device__ __forceinline__ T minus_infinity() {
  return order::round_to<T>(-order::infinity<float>());
}

template <class T, bool scaled, bool entropy>
__global__ void __launch_bounds__(32 * kTileWarps, sizeof(T) == 4 ? 4 : 6)
    logp_forward_tile(const __grid_constant__ core::LogpProblem problem, const RowSplit split,
                      const PartScratch scratch) {
  using Row = order::RowV1;
  using Tiles = Tile<T>;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ FinishShared<Row> shared;
  const std::int64_t slot = blockIdx.x / split.parts, row = split.first_row + slot;
  const int part = blockIdx.x % split.parts, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t id = problem.target(row);
  const core::RowKind kind = problem.kind(row, id);
  if (kind != core::RowKind::kLive) {
    if (part == 0 && threadIdx.x == 0) write_other_row<Row>(problem, row, kind);
    return;
  }

  const int blocks = static_cast<int>(order::block_count(problem.vocab));
  const int first = part * split.part_blocks, count = min(split.part_blocks, blocks - first);
  const int tiles = (count + Tiles::kBlocks - 1) / Tiles::kBlocks;
  const char* x = row_bytes(problem.logits, row);
  const std::int64_t row_size = problem.vocab * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t part_offset = static_cast<std::int64_t>(first) * Tiles::kBlockBytes;
  char* mine = dynamic + warp * Tiles::kSharedBytes;
  const auto start = [&](int tile) {
    Tiles::start(mine, x, part_offset + static_cast<std::int64_t>(tile) * Tiles::kBytes, row_size, lane);
  };
  if (warp < tiles) start(warp);

  const float it = inverse_temperature<Row>(problem, row);
  const float z_target = threadIdx.x == 0 ? load_logit<float>(x, problem.dtype, id) * it : 0.0f;
  const auto stats =
      BlockStats<float>::at(dynamic + kTileWarps * Tiles::kSharedBytes, split.part_blocks, entropy);
  const bool second_half = lane >= 16;
  for (int tile = warp; tile < tiles; tile += kTileWarps) {
    copy_wait();
    __syncwarp();
    const std::int64_t columns =
        problem.vocab - (std::int64_t(first) + tile * Tiles::kBlocks) * order::kBlock;
    if (columns < Tiles::kBlocks * order::kBlock) {
      Tiles::fill_missing(mine, static_cast<int>(columns), minus_infinity<T>(), lane);
      __syncwarp();
    }
    HalfBlock<T> half;
    half.load(mine + lane % 16 * Tiles::kPitch, lane / 16);
    __syncwarp();
    if (tile + kTileWarps < tiles) start(tile + kTileWarps);

    const Extremes extreme = extremes(half);
    const float m = scaled ? extreme.max * it : extreme.max;
    const float lowest = (scaled ? extreme.min * it : extreme.min) - m;
    BlockSums sums;
    if (__any_sync(kWarp, lowest < Row::kCut))
      sums = block_sums<T, scaled, entropy, true>(half, it, m, second_half);
    else
      sums = block_sums<T, scaled, entropy, false>(half, it, m, second_half);
    const int b = tile * Tiles::kBlocks + lane;
    if (!second_half && b < count) {
      const bool empty = m == -order::infinity<float>();
      stats.m[b] = m;
      stats.s[b] = empty ? 0.0f : sums.s;
      if constexpr (entropy) stats.u[b] = empty ? 0.0f : sums.u;
    }
  }
  finish_part<Row>(problem, row, slot, split.parts, stats, first, count, blocks, z_target, scratch, shared);
}

}  // namespace samebits::cuda
