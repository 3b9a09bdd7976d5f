// The end of a row: block statistics into M, S and U, and these into the outputs. CONTRACT section 1, steps 5 to 7.
#pragma once

#include "core/logp_problem.h"
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

template <class Row>
struct FinishShared {
  typename Row::Real max[8];
  typename Row::Fixed sum[8];
  bool last;
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

template <class Row>
__device__ void write_row(const core::LogpProblem& problem, std::int64_t row,
                          const order::RowStats<Row>& stats, const order::RowResult<Row>& result) {
  using Real = typename Row::Real;
  if (problem.logp) *problem.logp.at<Real>(row) = result.logp;
  if (problem.lse) *problem.lse.at<Real>(row) = result.lse;
  if (problem.entropy) *problem.entropy.at<Real>(row) = result.entropy;
  if (problem.row_max != nullptr) static_cast<Real*>(problem.row_max)[row] = stats.max;
  store_sum<Row>(problem.row_sum, row, stats.sum);
  store_sum<Row>(problem.row_entropy_sum, row, stats.entropy_sum);
}

// A row that does not take part; `kind` is not kLive.
template <class Row>
__device__ void write_other_row(const core::LogpProblem& problem, std::int64_t row, core::RowKind kind) {
  using Real = typename Row::Real;
  if (kind == core::RowKind::kKeep) return;
  const Real nan = order::canonical_nan<Real>(), inf = order::infinity<Real>();
  const bool zero = kind == core::RowKind::kZero;
  write_row<Row>(problem, row, {-inf, 0, 0},
                 zero ? order::RowResult<Row>{Real(0), -inf, Real(0)} : order::RowResult<Row>{nan, nan, nan});
}

// Called by a whole CTA of at most 8 warps once the statistics of all blocks of the row are visible to it.
template <class Row>
__device__ void finish_row(const core::LogpProblem& problem, std::int64_t row,
                           const BlockStats<typename Row::Real>& from, int blocks,
                           typename Row::Real z_target, FinishShared<Row>& shared) {
  using Real = typename Row::Real;
  using Fixed = typename Row::Fixed;
  Real max = -order::infinity<Real>();
  for (int b = threadIdx.x; b < blocks; b += blockDim.x) max = max_nan(max, from.m[b]);
  max = cta_reduce<MaxNan<Real>>(max, shared.max);
  if (max == Real(0)) max = Real(0);  // -0 is stored as +0

  Fixed sum = 0, entropy_sum = 0;
  const bool finite = order::classify(max) == order::RowClass::kFinite;
  if (finite) {
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) {
      sum += order::block_to_sum<Row>(from.m[b], from.s[b], max);
      if (from.u != nullptr)
        entropy_sum += order::block_to_entropy_sum<Row>(from.m[b], from.s[b], from.u[b], max);
    }
    sum = cta_reduce<Add<Fixed>>(sum, shared.sum);
    if (from.u != nullptr) entropy_sum = cta_reduce<Add<Fixed>>(entropy_sum, shared.sum);
  }
  if (threadIdx.x != 0) return;
  const order::RowStats<Row> stats{order::is_nan(max) ? order::canonical_nan<Real>() : max, sum, entropy_sum};
  write_row<Row>(problem, row, stats, order::finish_row<Row>(stats, z_target));
}

// Where the parts of a row that several CTAs share meet: global memory for the statistics of `rows` rows and a
// counter of finished parts for each, zero at the start.
struct PartScratch {
  void* stats = nullptr;
  unsigned* finished = nullptr;
};

// The end of a CTA that holds in `mine` the statistics of the blocks [first, first + count) of its row. With one part
// it finishes the row; otherwise the last of the row's CTAs to get here does. `slot` is the row within the scratch.
template <class Row>
__device__ void finish_part(const core::LogpProblem& problem, std::int64_t row, std::int64_t slot, int parts,
                            const BlockStats<typename Row::Real>& mine, int first, int count, int blocks,
                            typename Row::Real z_target, const PartScratch& scratch,
                            FinishShared<Row>& shared) {
  using Real = typename Row::Real;
  __syncthreads();
  if (parts == 1) return finish_row<Row>(problem, row, mine, blocks, z_target, shared);

  const bool entropy = mine.u != nullptr;
  const auto all = BlockStats<Real>::at(
      static_cast<char*>(scratch.stats) + slot * BlockStats<Real>::bytes(blocks, entropy), blocks, entropy);
  for (int b = threadIdx.x; b < count; b += blockDim.x) {
    all.m[first + b] = mine.m[b];
    all.s[first + b] = mine.s[b];
    if (entropy) all.u[first + b] = mine.u[b];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0)
    shared.last = atomicAdd(&scratch.finished[slot], 1u) == static_cast<unsigned>(parts - 1);
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  finish_row<Row>(problem, row, all, blocks, z_target, shared);
}

}  // namespace samebits::cuda
