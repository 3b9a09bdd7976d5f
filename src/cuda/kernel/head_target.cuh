// The target's logit of each row by itself: one dot product of the call's contract, without bias.
#pragma once

#include <type_traits>

#include "cuda/launch/head_rows.h"
#include "cuda/prim/mma.cuh"
#include "cuda/prim/reduce.cuh"
#include "order/dot.h"
#include "order/number.h"

namespace samebits::cuda {

inline constexpr int kTargetThreads = 32;  // few, so that they spread over the multiprocessors

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

// A row of 16-bit elements, read four at a time.
struct StepRow {
  const std::uint16_t* data;
  std::int64_t stride;

  template <class T>
  __device__ StepRow(const T* start, std::int64_t element_stride)
      : data(reinterpret_cast<const std::uint16_t*>(start)), stride(element_stride) {}

  __device__ bool vectors() const { return stride == 1 && reinterpret_cast<std::uintptr_t>(data) % 8 == 0; }
  // In the order of the program: many are under way before the first one is used.
  __device__ __forceinline__ uint2 vector(std::int64_t k) const {
    uint2 four;
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(four.x), "=r"(four.y) : "l"(data + k));
    return four;
  }
  // The same from anywhere; +0 from element `size` on.
  __device__ __forceinline__ uint2 elements(std::int64_t k, std::int64_t size) const {
    const auto at = [&](std::int64_t i) { return i < size ? std::uint32_t{data[i * stride]} : 0u; };
    return {at(k) | at(k + 1) << 16, at(k + 2) | at(k + 3) << 16};
  }
};

// tc16.v1: a warp per 16 positions, whose rows of hidden meet the rows of weight of their 16 targets; only the diagonal of
// that product is wanted. A step adds its 16 products in any order, so that a lane may give it four neighbours.
template <class T>
__global__ void __launch_bounds__(kTargetThreads)
    target_steps(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                 float* out) {
  const int lane = threadIdx.x % 32, group = lane / 4, four = 4 * (lane % 4);
  const std::int64_t first = (blockIdx.x * std::int64_t{kTargetThreads} + threadIdx.x) / 32 * 16;
  const std::int64_t count = *list.count;
  if (first >= count) return;
  const std::int64_t size = head.hidden_size;
  // Beyond the last position it stands in: what it gives is dropped.
  const auto hidden = [&](std::int64_t position) {
    return StepRow(head.hidden.at<T>(list.row[min(position, count - 1)]), head.hidden_stride);
  };
  const auto weight = [&](std::int64_t position) {
    return StepRow(static_cast<const T*>(head.weight.data) +
                       list.target[min(position, count - 1)] * head.weight.row_stride,
                   head.weight.column_stride);
  };
  const StepRow a_low = hidden(first + group), a_high = hidden(first + group + 8);
  const StepRow b_low = weight(first + group), b_high = weight(first + group + 8);
  const bool vectors =
      __all_sync(kWarp, a_low.vectors() && a_high.vectors() && b_low.vectors() && b_high.vectors());

  float low[4], high[4];  // the 16 rows with the first 8 targets, and with the other 8
  const auto step = [&](uint2 x, uint2 y, uint2 with_low, uint2 with_high) {
    const std::uint32_t a[4] = {x.x, y.x, x.y, y.y};
    mma_step<T>(low, a, with_low.x, with_low.y);
    mma_step<T>(high, a, with_high.x, with_high.y);
  };
  // Steps from k on, whose loads are all under way before the first product: the rows are far away.
  const auto steps = [&]<int n>(std::integral_constant<int, n>, std::int64_t k) {
    uint2 x[n], y[n], with_low[n], with_high[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x[i] = a_low.vector(k + 16 * i), y[i] = a_high.vector(k + 16 * i);
      with_low[i] = b_low.vector(k + 16 * i), with_high[i] = b_high.vector(k + 16 * i);
    }
#pragma unroll
    for (int i = 0; i < n; ++i) step(x[i], y[i], with_low[i], with_high[i]);
    return std::int64_t{16 * n};
  };
  float total_low = 0, total_high = 0;  // of the diagonal, in the lanes that hold it
  for (std::int64_t start = 0; start < size; start += order::kSegment) {
    const std::int64_t end = min(start + order::kSegment, size);
    std::int64_t k = start + four;
    const auto holds = [&](int count) { return vectors && k + 16 * count <= end + four; };
#pragma unroll
    for (int i = 0; i < 4; ++i) low[i] = high[i] = 0;
    while (holds(24)) k += steps(std::integral_constant<int, 24>(), k);
    while (holds(4)) k += steps(std::integral_constant<int, 4>(), k);
    for (; k < end + four; k += 16)
      step(a_low.elements(k, end), a_high.elements(k, end), b_low.elements(k, end), b_high.elements(k, end));
    total_low = total_low + (group % 2 == 0 ? low[0] : low[1]);
    total_high = total_high + (group % 2 == 0 ? high[2] : high[3]);
  }
  if (lane % 4 != group / 2) return;
  if (first + group < count) out[first + group] = total_low;
  if (first + group + 8 < count) out[first + group + 8] = total_high;
}

}  // namespace samebits::cuda
