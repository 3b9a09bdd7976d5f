// The target's logit of each row by itself: one dot product of the call's contract, without bias.
#pragma once

#include "cuda/launch/head_rows.h"
#include "cuda/prim/mma.cuh"
#include "order/dot.h"
#include "order/number.h"

namespace samebits::cuda {

inline constexpr int kTargetThreads = 64;

// fma.v1 and fma64.v1: a thread per position.
template <class T, class Real>
__global__ void __launch_bounds__(kTargetThreads)
    target_chains(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                  Real* out) {
  const std::int64_t position = blockIdx.x * std::int64_t{kTargetThreads} + threadIdx.x;
  if (position >= *list.count) return;
  const T* hidden = head.hidden.at<T>(list.row[position]);
  const T* weight = static_cast<const T*>(head.weight.data) + list.target[position] * head.weight.row_stride;
  Real total = 0;
  for (std::int64_t first = 0; first < head.hidden_size; first += order::kSegment) {
    const std::int64_t end = min(first + order::kSegment, head.hidden_size);
    Real acc = 0;
#pragma unroll 8
    for (std::int64_t k = first; k < end; ++k)
      acc = order::fma(order::widen<Real>(hidden[k * head.hidden_stride]),
                       order::widen<Real>(weight[k * head.weight.column_stride]), acc);
    total = total + acc;
  }
  out[position] = total;
}

// A row of 16-bit elements, read in pairs; +0 beyond its end and everywhere when it is no row.
struct PairRow {
  const std::uint16_t* data = nullptr;
  std::int64_t stride = 1, size = 0;
  bool words = false;  // pairs may be read as one word

  __device__ PairRow(const void* start, std::int64_t element_stride, std::int64_t count)
      : data(static_cast<const std::uint16_t*>(start)),
        stride(element_stride),
        size(count),
        words(element_stride == 1 && reinterpret_cast<std::uintptr_t>(start) % 4 == 0) {}

  // Elements k (even) and k + 1.
  __device__ __forceinline__ std::uint32_t at(std::int64_t k) const {
    if (k + 1 < size && words) return *reinterpret_cast<const std::uint32_t*>(data + k);
    const std::uint32_t low = k < size ? data[k * stride] : 0u;
    const std::uint32_t high = k + 1 < size ? data[(k + 1) * stride] : 0u;
    return low | high << 16;
  }
};

// tc16.v1: a warp per 16 positions, whose rows of hidden meet the rows of weight of their 16 targets; only the diagonal of
// that product is wanted.
template <class T>
__global__ void __launch_bounds__(kTargetThreads)
    target_steps(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                 float* out) {
  const int lane = threadIdx.x % 32, group = lane / 4, pair = 2 * (lane % 4);
  const std::int64_t first = (blockIdx.x * std::int64_t{kTargetThreads} + threadIdx.x) / 32 * 16;
  const std::int64_t count = *list.count;
  if (first >= count) return;
  const std::int64_t size = head.hidden_size;
  const auto hidden = [&](std::int64_t position) {
    if (position >= count) return PairRow(nullptr, 1, 0);
    return PairRow(head.hidden.at<T>(list.row[position]), head.hidden_stride, size);
  };
  const auto weight = [&](std::int64_t position) {
    if (position >= count) return PairRow(nullptr, 1, 0);
    return PairRow(static_cast<const T*>(head.weight.data) + list.target[position] * head.weight.row_stride,
                   head.weight.column_stride, size);
  };
  const PairRow a_low = hidden(first + group), a_high = hidden(first + group + 8);
  const PairRow b_low = weight(first + group), b_high = weight(first + group + 8);

  float total_low = 0, total_high = 0;  // of the diagonal, in the lanes that hold it
  for (std::int64_t start = 0; start < size; start += order::kSegment) {
    const std::int64_t end = min(start + order::kSegment, size);
    float low[4] = {}, high[4] = {};  // the 16 rows with the first 8 targets, and with the other 8
#pragma unroll 12
    for (std::int64_t k = start + pair; k < end + pair; k += 16) {
      const std::uint32_t a[4] = {a_low.at(k), a_high.at(k), a_low.at(k + 8), a_high.at(k + 8)};
      mma_step<T>(low, a, b_low.at(k), b_low.at(k + 8));
      mma_step<T>(high, a, b_high.at(k), b_high.at(k + 8));
    }
    total_low = total_low + (group % 2 == 0 ? low[0] : low[1]);
    total_high = total_high + (group % 2 == 0 ? high[2] : high[3]);
  }
  if (lane % 4 != group / 2) return;
  if (first + group < count) out[first + group] = total_low;
  if (first + group + 8 < count) out[first + group + 8] = total_high;
}

}  // namespace samebits::cuda
