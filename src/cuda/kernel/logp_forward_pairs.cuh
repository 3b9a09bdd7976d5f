// Forward pass of row.v1 for many rows of a 16-bit type, all on boundaries of 16 bytes: whole tiles by a loop that does
// little but its arithmetic, which is the limit there. Otherwise as in logp_forward_tile.cuh.
#pragma once

#include "cuda/kernel/logp_forward_tile.cuh"

namespace samebits::cuda {

// Warps of SM90 that share a multiprocessor's registers: without a temperature the code gets by with fewer.
inline constexpr int kResidentWarpsPlainSm90 = 28;

template <class T, bool scaled>
constexpr int pairs_ctas() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  return (scaled ? kResidentWarps<T> : kResidentWarpsPlainSm90) / kTileWarps<T>;
#else
  return kResidentWarps<T> / kTileWarps<T>;
#endif
}

template <class T, bool scaled, bool entropy>
__global__ void __launch_bounds__(32 * kTileWarps<T>, pairs_ctas<T, scaled>())
    logp_forward_pairs(const __grid_constant__ core::LogpProblem problem, const RowSplit split,
                       const PartScratch scratch) {
  using Row = order::RowV1;
  using Tiles = Tile<T>;
  constexpr int kWarps = kTileWarps<T>;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ FinishShared<Row> shared;
  let_kernel_behind_start();
  Part<Row> part = part_of<Row>(problem, split);
  const int lane = threadIdx.x % 32;
  const int warp =
      __shfl_sync(kWarp, threadIdx.x / 32, 0);  // so that the compiler knows that branches are the warp's
  const std::int64_t id = problem.target(part.row);
  if (!takes_part(problem, part, id)) return;

  const int columns = columns_of(problem, part), whole = columns / Tiles::kColumns;
  const T* const row = problem.logits.at<T>(part.row);
  const T* const x = row + std::int64_t{part.first} * order::kBlock;
  char* const mine = dynamic + warp * Tiles::kSharedBytes;
  const std::uint32_t to = shared_address(mine) + Tiles::place(lane * 16);
  const std::uint32_t own = shared_address(mine) + lane % 16 * Tiles::kPitch + lane / 16 * 32;
  const char* from = reinterpret_cast<const char*>(x) + warp * Tiles::kBytes + lane * 16;
  const auto start = [&] {
#pragma unroll
    for (int i = 0; i < Tiles::kCopies; ++i) copy16(to + i * Tiles::kStep, from + i * 512);
  };
  int left = whole - warp;
  if (left > 0) start();

  const float it = scaled ? inverse_temperature<Row>(problem, part.row) : 1.0f;
  if (threadIdx.x == 0) shared.z_target = order::to_float(row[id]) * it;
  float* const stats = reinterpret_cast<float*>(dynamic + kWarps * Tiles::kSharedBytes);
  const bool second_half = lane >= 16;
  // Of this lane's block: m_b in the first half, s_b and u_b in the second.
  float* result = stats + (second_half ? split.part_blocks : 0) + warp * Tiles::kBlocks + lane % 16;
  const auto keep = [&](float m, const BlockSums& sums) {
    *result = second_half ? sums.s : m;
    if (entropy && second_half) result[split.part_blocks] = sums.u;
  };
  HalfBlock<T> half;
  for (; left > 0; left -= kWarps, result += kWarps * Tiles::kBlocks) {
    copy_wait();
    __syncwarp();
    half.load(own);
    __syncwarp();
    from += kWarps * Tiles::kBytes;
    if (left > kWarps) start();
    const Extremes extreme = extremes(half);
    const float m = scaled ? extreme.max * it : extreme.max;
    keep(m, tile_sums<T, scaled, entropy>(half, it, m, extreme.min, second_half));
  }
  // Less than a tile, by the warp whose turn it is.
  const int first = whole * Tiles::kColumns;
  if (first < columns && warp == whole % kWarps) {
    copy_first(to, x + first, columns - first, lane);
    copy_wait();
    __syncwarp();
    if (columns % order::kBlock != 0) {
      fill_missing(mine, columns - first, 0, minus_infinity<T>(), lane);
      __syncwarp();
    }
    half.load(own);
    const float max = extremes(half).max, m = scaled ? max * it : max;
    BlockSums sums = block_sums<T, scaled, entropy, true>(half, it, m, second_half);
    if (m == -order::infinity<float>()) sums = {0, 0};
    if (first + lane % 16 * order::kBlock < columns) keep(m, sums);
  }
  // The kernel ahead may have other rows of the same call; who waits for this one's end waits for both.
  wait_for_kernel_ahead();
  part = part_of<Row>(problem, split);  // kept over the loop it would not fit in registers
  part.stats = BlockStats<float>::at(stats, split.part_blocks, entropy);
  finish_part<Row>(problem, part, scratch, shared);
}

}  // namespace samebits::cuda
