// Forward pass of row.v1 at memory speed, for fp32, bf16 and fp16. Rows aligned to 16 bytes are the fast ones.
//
// Each warp is a pipeline of its own. While it computes on a tile in registers, the copy of its next one into shared
// memory is under way, so the CTA meets only at the end of the row.
#pragma once

#include "cuda/kernel/half_block.cuh"
#include "cuda/kernel/row_finish.cuh"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

// Warps of a CTA: few for 16-bit rows, whose CTAs cover for each other at the end of a row; more where the memory is the
// limit, and where rows are few.
template <class T>
inline constexpr int kTileWarps = sizeof(T) == 4 ? 10 : 4;
template <class T>
inline constexpr int kMostTileWarps = sizeof(T) == 4 ? 10 : 8;
// Warps that share a multiprocessor's registers.
template <class T>
inline constexpr int kResidentWarps = sizeof(T) == 4 ? 20 : 24;
// From SM100 on the code of fp32 needs more registers than so many warps leave to each.
inline constexpr int kTileWarps32Sm100 = 8, kResidentWarps32Sm100 = 16;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr bool kSm100Code = true;
#else
inline constexpr bool kSm100Code = false;
#endif
template <class T>
inline constexpr int kCodeWarps = kSm100Code && sizeof(T) == 4 ? kTileWarps32Sm100 : kMostTileWarps<T>;

// Statistics of the 16 blocks of the tile at `tile`: in lanes below 16 m_b and s_b, u_b.
template <class T, bool scaled, bool entropy>
__device__ __forceinline__ BlockSums tile_sums(const HalfBlock<T>& half, float it, float m, float min,
                                               bool second_half) {
  const float lowest = (scaled ? min * it : min) - m;
  BlockSums sums;
  if (__any_sync(kWarp, lowest < order::RowV1::kCut))
    sums = block_sums<T, scaled, entropy, true>(half, it, m, second_half);
  else
    sums = block_sums<T, scaled, entropy, false>(half, it, m, second_half);
  const bool empty = m == -order::infinity<float>();
  return {empty ? 0.0f : sums.s, empty ? 0.0f : sums.u};
}

// Columns of a part; its last tile may hold fewer than 16 blocks, and its last block fewer than 128 columns.
__device__ __forceinline__ int columns_of(const core::LogpProblem& problem, const Part<order::RowV1>& part) {
  return static_cast<int>(min(std::int64_t{part.count} * order::kBlock,
                              problem.vocab - std::int64_t{part.first} * order::kBlock));
}

// Whether the row of a CTA takes part; one that does not is written here.
__device__ __forceinline__ bool takes_part(const core::LogpProblem& problem, const Part<order::RowV1>& part,
                                           std::int64_t id) {
  const core::RowKind kind = problem.kind(part.row, id);
  if (kind == core::RowKind::kLive) return true;
  wait_for_kernel_ahead();
  if (part.index == 0 && threadIdx.x == 0) write_other_row<order::RowV1>(problem, part.row, kind);
  return false;
}

template <class T, bool scaled, bool entropy>
__global__ void __launch_bounds__(32 * kCodeWarps<T>, kResidentWarps<T> / kMostTileWarps<T>)
    logp_forward_tile(const __grid_constant__ core::LogpProblem problem, const RowSplit split,
                      const PartScratch scratch) {
  using Row = order::RowV1;
  using Tiles = Tile<T>;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ FinishShared<Row> shared;
  let_kernel_behind_start();
  Part<Row> part = part_of<Row>(problem, split);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const std::int64_t id = problem.target(part.row);
  if (!takes_part(problem, part, id)) return;

  const int columns = columns_of(problem, part);
  const int tiles = (part.count + Tiles::kBlocks - 1) / Tiles::kBlocks;
  const int whole = columns / Tiles::kColumns;
  const T* x = problem.logits.at<T>(part.row);
  const std::int64_t skipped = (std::int64_t{part.first} + warp * Tiles::kBlocks) * order::kBlock;
  char* mine = dynamic + warp * Tiles::kSharedBytes;
  TileCopy<T> copy(mine, x + skipped, x + problem.vocab, warps * Tiles::kBytes, lane);
  if (warp < tiles) copy.start(warp < whole, lane);

  const float it = scaled ? inverse_temperature<Row>(problem, part.row) : 1.0f;
  if (threadIdx.x == 0) shared.z_target = order::to_float(x[id]) * it;
  float* const stats = reinterpret_cast<float*>(dynamic + warps * Tiles::kSharedBytes);
  const bool second_half = lane >= 16;
  const int shift = shift_of(x);
  const char* const my_block = mine + lane % 16 * Tiles::kPitch;
  for (int tile = warp; tile < tiles; tile += warps) {
    copy_wait();
    __syncwarp();
    if (tile >= whole && columns % order::kBlock != 0) {
      fill_missing(mine, columns - tile * Tiles::kColumns, shift, minus_infinity<T>(), lane);
      __syncwarp();
    }
    HalfBlock<T> half;
    half.load(my_block, lane / 16, shift);
    __syncwarp();
    if (tile + warps < tiles) copy.start(tile + warps < whole, lane);

    const Extremes extreme = extremes(half);
    const float m = scaled ? extreme.max * it : extreme.max;
    const BlockSums sums = tile_sums<T, scaled, entropy>(half, it, m, extreme.min, second_half);
    const int b = tile * Tiles::kBlocks + lane % 16;
    if (b < part.count) {
      stats[second_half ? split.part_blocks + b : b] = second_half ? sums.s : m;
      if (entropy && second_half) stats[2 * split.part_blocks + b] = sums.u;
    }
  }
  // The kernel ahead may have other rows of the same call; who waits for this one's end waits for both.
  wait_for_kernel_ahead();
  part.stats = BlockStats<float>::at(stats, split.part_blocks, entropy);
  finish_part<Row>(problem, part, scratch, shared);
}

}  // namespace samebits::cuda
