// The end of a row: block statistics into M, S and U, and these into the outputs. CONTRACT section 1, steps 5 to 7.
#pragma once

#include "core/logp_problem.h"
#include "cuda/prim/cluster.cuh"
#include "cuda/prim/load.cuh"
#include "cuda/prim/reduce.cuh"
#include "order/row.h"

namespace samebits::cuda {

// Statistics of the blocks of a row or of a part of one; u is null unless entropy is wanted.
template <class Real>
struct BlockStats {
  Real *m, *s, *u;

  __host__ __device__ static BlockStats at(void* memory, std::int64_t blocks, bool entropy) {
    Real* base = static_cast<Real*>(memory);
    return {base, base + blocks, entropy ? base + 2 * blocks : nullptr};
  }
  __host__ __device__ static std::int64_t bytes(std::int64_t blocks, bool entropy) {
    return blocks * (entropy ? 3 : 2) * static_cast<std::int64_t>(sizeof(Real));
  }
};

// Most CTAs of a cluster, and most warps of a CTA.
inline constexpr int kMaxCluster = 8, kMaxWarps = 10;

template <class Row>
struct FinishShared {
  typename Row::Real max[kMaxWarps];
  typename Row::Fixed sum[kMaxWarps];
  typename Row::Real part_max;                // of this CTA's blocks
  typename Row::Fixed parts[2][kMaxCluster];  // in CTA 0 of a cluster: S and U of every CTA
  typename Row::Real z_target;                // by thread 0, before the end of the row
  bool last;
};

template <class Row>
struct RowSums {
  typename Row::Fixed sum, entropy_sum;
};

template <class Row>
__device__ void store_sum(void* sums, std::int64_t row, typename Row::Fixed sum) {
  if (sums == nullptr) return;
  auto* words = static_cast<std::uint64_t*>(sums);
  if constexpr (sizeof(sum) == 8) {
    words[row] = sum;
  } else {
    words[2 * row] = static_cast<std::uint64_t>(sum);
    words[2 * row + 1] = static_cast<std::uint64_t>(sum >> 64);
  }
}

template <class Row>
__device__ typename Row::Fixed load_sum(const void* sums, std::int64_t row) {
  if (sums == nullptr) return 0;
  const auto* words = static_cast<const std::uint64_t*>(sums);
  if constexpr (sizeof(typename Row::Fixed) == 8)
    return words[row];
  else
    return (static_cast<typename Row::Fixed>(words[2 * row + 1]) << 64) | words[2 * row];
}

// `Problem` has the outputs of core::LogpProblem.
template <class Row, class Problem>
__device__ void write_row(const Problem& problem, std::int64_t row, const order::RowStats<Row>& stats,
                          const order::RowResult<Row>& result) {
  using Real = typename Row::Real;
  if (problem.logp) *problem.logp.template at<Real>(row) = result.logp;
  if (problem.lse) *problem.lse.template at<Real>(row) = result.lse;
  if (problem.entropy) *problem.entropy.template at<Real>(row) = result.entropy;
  if (problem.row_max != nullptr) static_cast<Real*>(problem.row_max)[row] = stats.max;
  store_sum<Row>(problem.row_sum, row, stats.sum);
  store_sum<Row>(problem.row_entropy_sum, row, stats.entropy_sum);
}

// A row that does not take part; `kind` is not kLive.
template <class Row, class Problem>
__device__ void write_other_row(const Problem& problem, std::int64_t row, core::RowKind kind) {
  using Real = typename Row::Real;
  if (kind == core::RowKind::kKeep) return;
  const Real nan = order::canonical_nan<Real>(), inf = order::infinity<Real>();
  const bool zero = kind == core::RowKind::kZero;
  write_row<Row>(problem, row, {-inf, 0, 0},
                 zero ? order::RowResult<Row>{Real(0), -inf, Real(0)} : order::RowResult<Row>{nan, nan, nan});
}

// The three steps below are taken by a whole CTA.

// Maximum of `count` blocks.
template <class Row>
__device__ typename Row::Real max_of(const BlockStats<typename Row::Real>& from, int count,
                                     FinishShared<Row>& shared) {
  using Real = typename Row::Real;
  Real max = -order::infinity<Real>();
  for (int b = threadIdx.x; b < count; b += blockDim.x) max = max_nan(max, from.m[b]);
  return cta_reduce<MaxNan<Real>>(max, shared.max);
}

// What `count` blocks add to S and U, given M; 0 in rows that are not finite.
template <class Row>
__device__ RowSums<Row> sums_of(const BlockStats<typename Row::Real>& from, int count, typename Row::Real max,
                                FinishShared<Row>& shared) {
  using Fixed = typename Row::Fixed;
  RowSums<Row> sums{0, 0};
  if (order::classify(max) != order::RowClass::kFinite) return sums;
  for (int b = threadIdx.x; b < count; b += blockDim.x) {
    sums.sum += order::block_to_sum<Row>(from.m[b], from.s[b], max);
    if (from.u != nullptr)
      sums.entropy_sum += order::block_to_entropy_sum<Row>(from.m[b], from.s[b], from.u[b], max);
  }
  sums.sum = cta_reduce<Add<Fixed>>(sums.sum, shared.sum);
  if (from.u != nullptr) sums.entropy_sum = cta_reduce<Add<Fixed>>(sums.entropy_sum, shared.sum);
  return sums;
}

// The row's outputs, by one thread.
template <class Row, class Problem>
__device__ void write_live_row(const Problem& problem, std::int64_t row, typename Row::Real max,
                               const RowSums<Row>& sums, typename Row::Real z_target) {
  using Real = typename Row::Real;
  if (max == Real(0)) max = Real(0);  // -0 is stored as +0
  if (order::is_nan(max)) max = order::canonical_nan<Real>();
  const order::RowStats<Row> stats{max, sums.sum, sums.entropy_sum};
  write_row<Row>(problem, row, stats, order::finish_row<Row>(stats, z_target));
}

// How the CTAs of a row meet when it has several: in a cluster, or in global memory, with the statistics of each row of
// the launch and a counter of its finished parts, zero at the start.
struct PartScratch {
  void* stats = nullptr;  // null: a cluster
  unsigned* finished = nullptr;
};

template <class Row>
struct Part {
  std::int64_t row, slot;  // of the problem, and of the scratch
  int index, parts;
  int first, count, blocks;  // this part's blocks, and those of the row
  BlockStats<typename Row::Real> stats;
};

// How the rows of a launch are cut: items (row, part), part fastest, `part_blocks` blocks each. The last row comes first:
// its logits may still be in the cache, and those of the first rows then are when backward comes.
struct RowSplit {
  std::int64_t first_row, rows;
  int parts;
  int part_blocks;
};

// The CTA's part of that; its statistics are not placed yet. Made again it need not be kept: the item is read anew.
template <class Row>
__device__ Part<Row> part_of(const core::LogpProblem& problem, const RowSplit& split) {
  Part<Row> part;
  part.parts = split.parts;
  unsigned item;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(item));
  const unsigned slot = split.parts == 1 ? item : item / split.parts;
  part.slot = slot;
  part.row = split.first_row + (split.rows - 1 - slot);
  part.index = static_cast<int>(item - slot * split.parts);
  part.blocks = static_cast<int>(order::block_count(problem.vocab));
  part.first = part.index * split.part_blocks;
  part.count = max(min(split.part_blocks, part.blocks - part.first), 0);
  return part;
}

template <class Row>
__device__ void finish_in_cluster(const core::LogpProblem& problem, const Part<Row>& part,
                                  FinishShared<Row>& shared) {
  typename Row::Real max = max_of<Row>(part.stats, part.count, shared);
  if (threadIdx.x == 0) shared.part_max = max;
  cluster_sync();
  const int lane = threadIdx.x % 32;
  if (lane < part.parts) max = max_nan(max, *of_cta(&shared.part_max, lane));
  max = warp_reduce<MaxNan<typename Row::Real>>(max);
  RowSums<Row> sums = sums_of<Row>(part.stats, part.count, max, shared);
  if (threadIdx.x == 0) {
    FinishShared<Row>* first = of_cta(&shared, 0);
    first->parts[0][part.index] = sums.sum;
    first->parts[1][part.index] = sums.entropy_sum;
  }
  cluster_sync();
  if (part.index != 0 || threadIdx.x != 0) return;
  sums = {0, 0};
  for (int i = 0; i < part.parts; ++i) {
    sums.sum += shared.parts[0][i];
    sums.entropy_sum += shared.parts[1][i];
  }
  write_live_row<Row>(problem, part.row, max, sums, shared.z_target);
}

// The last of the row's CTAs to get here finishes it.
template <class Row>
__device__ void finish_in_memory(const core::LogpProblem& problem, const Part<Row>& part,
                                 const PartScratch& scratch, FinishShared<Row>& shared) {
  using Real = typename Row::Real;
  const bool entropy = part.stats.u != nullptr;
  const auto all = BlockStats<Real>::at(
      static_cast<char*>(scratch.stats) + part.slot * BlockStats<Real>::bytes(part.blocks, entropy),
      part.blocks, entropy);
  for (int b = threadIdx.x; b < part.count; b += blockDim.x) {
    all.m[part.first + b] = part.stats.m[b];
    all.s[part.first + b] = part.stats.s[b];
    if (entropy) all.u[part.first + b] = part.stats.u[b];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0)
    shared.last = atomicAdd(&scratch.finished[part.slot], 1u) == static_cast<unsigned>(part.parts - 1);
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  const Real max = max_of<Row>(all, part.blocks, shared);
  const RowSums<Row> sums = sums_of<Row>(all, part.blocks, max, shared);
  if (threadIdx.x == 0) write_live_row<Row>(problem, part.row, max, sums, shared.z_target);
}

// The end of a CTA, with the statistics of its part in place.
template <class Row>
__device__ void finish_part(const core::LogpProblem& problem, const Part<Row>& part,
                            const PartScratch& scratch, FinishShared<Row>& shared) {
  __syncthreads();
  if (part.parts > 1) {
    if (scratch.stats == nullptr) return finish_in_cluster<Row>(problem, part, shared);
    return finish_in_memory<Row>(problem, part, scratch, shared);
  }
  const typename Row::Real max = max_of<Row>(part.stats, part.blocks, shared);
  const RowSums<Row> sums = sums_of<Row>(part.stats, part.blocks, max, shared);
  if (threadIdx.x == 0) write_live_row<Row>(problem, part.row, max, sums, shared.z_target);
}

}  // namespace samebits::cuda
