// The rows of a head that take part, found on the device: kinds, a prefix sum, and arrays by position.
#pragma once

#include "core/matmul_problem.h"
#include "cuda/kernel/gather_row.cuh"
#include "cuda/kernel/row_finish.cuh"
#include "cuda/launch/head_rows.h"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

inline constexpr int kListThreads = 256, kListSteps = 4;

__device__ __forceinline__ core::RowKind kind_of(const core::LogpProblem& problem, std::int64_t row) {
  return problem.kind(row, problem.target(row));
}

// counts[i] = rows that take part among those of CTA i.
__global__ void __launch_bounds__(kListThreads)
    count_rows(const __grid_constant__ core::LogpProblem problem, std::int32_t* counts) {
  __shared__ std::int32_t warps[kListThreads / 32];
  const std::int64_t first = blockIdx.x * std::int64_t{kRowsOfList};
  std::int32_t count = 0;
  for (int step = 0; step < kListSteps; ++step) {
    const std::int64_t row = first + step * kListThreads + threadIdx.x;
    if (row < problem.rows && kind_of(problem, row) == core::RowKind::kLive) ++count;
  }
  count = cta_reduce<Add<std::int32_t>>(count, warps);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// counts[i] = the sum of those before i; by one CTA.
__global__ void __launch_bounds__(kListThreads) sum_counts(std::int32_t* counts, std::int64_t length) {
  __shared__ std::int32_t warps[kListThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int32_t before = 0;
  for (std::int64_t first = 0; first < length; first += kListThreads) {
    const std::int64_t i = first + threadIdx.x;
    const std::int32_t own = i < length ? counts[i] : 0;
    std::int32_t sum = own;  // up to this lane
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t below = __shfl_up_sync(kWarp, sum, step);
      if (lane >= step) sum += below;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    std::int32_t all = 0, below = 0;
    for (int w = 0; w < kListThreads / 32; ++w) {
      if (w == warp) below = all;
      all += warps[w];
    }
    if (i < length) counts[i] = before + below + sum - own;
    before += all;
    __syncthreads();
  }
}

// Writes the list, and the outputs of rows that take no part. `before` is what sum_counts made; null with one CTA.
template <class Row>
__global__ void __launch_bounds__(kListThreads)
    list_rows(const __grid_constant__ core::LogpProblem problem, const std::int32_t* before,
              const __grid_constant__ HeadRows list) {
  follow_kernel_ahead();
  using Real = typename Row::Real;
  __shared__ std::int32_t warps[kListThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = blockIdx.x * std::int64_t{kRowsOfList};
  std::int32_t next = before == nullptr ? 0 : before[blockIdx.x];
  for (int step = 0; step < kListSteps && first + step * kListThreads < problem.rows; ++step) {
    const std::int64_t row = first + step * kListThreads + threadIdx.x;
    bool live = false;
    std::int64_t id = 0;
    if (row < problem.rows) {
      id = problem.target(row);
      const core::RowKind kind = problem.kind(row, id);
      live = kind == core::RowKind::kLive;
      if (!live) write_other_row<Row>(problem, row, kind);
    }
    const unsigned lanes = __ballot_sync(kWarp, live);
    if (lane == 0) warps[warp] = __popc(lanes);
    __syncthreads();
    std::int32_t all = 0, below = 0;
    for (int w = 0; w < kListThreads / 32; ++w) {
      if (w == warp) below = all;
      all += warps[w];
    }
    const std::int32_t position = next + below + __popc(lanes & ((1u << lane) - 1));
    if (live) {
      list.row[position] = static_cast<std::int32_t>(row);
      list.target[position] = id;
      if (list.inverse_tau != nullptr)
        static_cast<Real*>(list.inverse_tau)[position] = inverse_temperature<Row>(problem, row);
    }
    if (list.position != nullptr && row < problem.rows) list.position[row] = live ? position : -1;
    next += all;
    __syncthreads();
  }
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) *list.count = next;
}

inline constexpr int kGatherWarps = 8;

// Rows of hidden as they are, a warp each; `Bits` is a word of the size of an element. Elements from `size` on are +0, and
// so are rows from *count on, up to a multiple of 64. `beside`: nothing here depends on the kernel ahead; a CTA more than there
// are rows for waits for it, so that this kernel ends behind it.
template <class Bits>
__global__ void __launch_bounds__(32 * kGatherWarps)
    gather_rows(const __grid_constant__ core::RowArray<const void> hidden, std::int64_t hidden_stride,
                std::int64_t size, const std::int32_t* row, const PositionRange range, Bits* out,
                std::int64_t out_stride, bool beside) {
  if (!beside) wait_for_kernel_ahead();
  let_kernel_behind_start();
  if (beside && blockIdx.x + 1 == gridDim.x) return wait_for_kernel_ahead();
  __shared__ const Bits* starts[kGatherWarps];
  // By few threads and before all else: it divides.
  const std::int64_t first = blockIdx.x * std::int64_t{kGatherWarps};
  if (threadIdx.x < kGatherWarps && first + threadIdx.x < range.rows) {
    const std::int64_t position = range.first + first + threadIdx.x;
    const auto* data = static_cast<const Bits*>(hidden.data);
    starts[threadIdx.x] = position < *range.count ? data + hidden.index.offset(row[position]) : nullptr;
  }
  __syncthreads();

  const std::int64_t i = first + threadIdx.x / 32;
  if (i < range.rows && range.first + i < (*range.count + 63) / 64 * std::int64_t{64})
    gather_row(starts[threadIdx.x / 32], hidden_stride, size, out + i * out_stride, out_stride);
}

}  // namespace samebits::cuda
