// X, and the end of grad_weight. CONTRACT section 4, point 6.
#pragma once

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/kernel/target_terms.cuh"
#include "cuda/launch/head_gradient.h"
#include "cuda/launch/head_weight.h"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/pair.cuh"

namespace samebits::cuda {

inline constexpr int kXWarps = 8;

// j.
__device__ __forceinline__ int scale_exponent(const HeadScalars& scalars) {
  return order::weight_exponent(__uint_as_float(scalars.largest_scale));
}

// X of a range, a warp per row; elements from H on are +0, and so are rows from *count on, up to a multiple of 64.
template <class T, class Stored>
__global__ void __launch_bounds__(32 * kXWarps)
    fill_x(const __grid_constant__ core::LinearLogpProblem head,
           const __grid_constant__ HeadGradientRows<order::RowV1> at, const PositionRange range, Stored* x,
           std::int64_t x_stride) {
  follow_kernel_ahead();
  __shared__ const T* starts[kXWarps];
  const std::int64_t first = blockIdx.x * std::int64_t{kXWarps};
  if (threadIdx.x < kXWarps && first + threadIdx.x < range.rows) {
    const std::int64_t position = range.first + first + threadIdx.x;
    starts[threadIdx.x] =
        position < *range.count ? head.hidden.at<T>(at.list.row[position]) : static_cast<const T*>(nullptr);
  }
  __syncthreads();

  const int lane = threadIdx.x % 32;
  const std::int64_t i = first + threadIdx.x / 32;
  if (i >= range.rows || range.first + i >= (*range.count + 63) / 64 * std::int64_t{64}) return;
  const T* const from = starts[threadIdx.x / 32];
  Stored* const to = x + i * x_stride;
  std::int64_t k = 0;
  if (from != nullptr) {
    const float scale = order::scaled(at.form[range.first + i].scale, -scale_exponent(*at.scalars));
    if constexpr (sizeof(T) == 2 && sizeof(Stored) == 2)
      if (head.hidden_stride == 1 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
        // Several under way: with few rows there is no other warp to wait with.
        constexpr int kAhead = 4;
        for (std::int64_t v = lane; v < head.hidden_size / 8; v += 32 * kAhead) {
          Vector<T> values[kAhead];
#pragma unroll
          for (int a = 0; a < kAhead; ++a)
            if (v + 32 * a < head.hidden_size / 8)
              values[a].load(reinterpret_cast<const char*>(from + 8 * (v + 32 * a)));
#pragma unroll
          for (int a = 0; a < kAhead; ++a) {
            if (v + 32 * a >= head.hidden_size / 8) break;
            float scaled[8];
#pragma unroll
            for (int e = 0; e < 8; ++e) scaled[e] = scale * values[a].get(e);
            values[a].set(scaled);
            values[a].store(reinterpret_cast<char*>(to + 8 * (v + 32 * a)));
          }
        }
        k = head.hidden_size / 8 * 8;
      }
    for (std::int64_t e = k + lane; e < head.hidden_size; e += 32)
      to[e] = order::round_to<Stored>(scale * order::to_float(from[e * head.hidden_stride]));
    k = head.hidden_size;
  }
  for (std::int64_t e = k + lane; e < x_stride; e += 32) to[e] = order::round_to<Stored>(0.0f);
}

inline constexpr int kWeightThreads = 256;

// Rows of grad_weight, written or added to.
struct WeightRows {
  void* data;  // row 0 of the weight
  std::int64_t stride;
  std::int64_t first;  // the one that is the first of `total`
};

template <class T, int width>
struct alignas(width * sizeof(T) < 16 ? width * sizeof(T) : 16) WeightElements {
  T value[width];
};

// Items (row of `total`, part of its columns), part fastest. Out is T, or float for an accumulator.
template <class T, class Out, int width, bool accumulate>
__global__ void __launch_bounds__(kWeightThreads)
    finish_weight(const float* total, std::int64_t size, const __grid_constant__ TargetTerms<T, width> terms,
                  const __grid_constant__ IdRuns runs, const LongRuns<float> long_runs,
                  const HeadScalars* scalars, const WeightRows to, std::int64_t parts) {
  const std::int64_t row = blockIdx.x / parts;
  const std::int64_t column = (blockIdx.x % parts * kWeightThreads + threadIdx.x) * width;
  if (column >= size) return;
  const IdRun run = runs.run[to.first + row];
  float value[width], own[width] = {};
  if (run.first != run.end) sum_run(terms, runs.order.position, run, long_runs, column, own);
  const auto from = *reinterpret_cast<const WeightElements<float, width>*>(total + row * size + column);
  const double up = order::power_of_2(scale_exponent(*scalars));
#pragma unroll
  for (int i = 0; i < width; ++i)
    value[i] = static_cast<float>(static_cast<double>(from.value[i]) * up) + own[i];
  auto* out = reinterpret_cast<WeightElements<Out, width>*>(static_cast<Out*>(to.data) +
                                                            (to.first + row) * to.stride + column);
  WeightElements<Out, width> result;
  if constexpr (accumulate) result = *out;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    if constexpr (accumulate)
      result.value[i] = order::round_to<Out>(result.value[i] + value[i]);
    else
      result.value[i] = order::round_to<Out>(value[i]);
  }
  *out = result;
}

// In binary64 the total is the gradient.
template <bool accumulate>
__global__ void __launch_bounds__(kWeightThreads)
    finish_weight_64(const double* total, std::int64_t size, const WeightRows to, std::int64_t parts) {
  const std::int64_t r = blockIdx.x / parts;
  const std::int64_t column = blockIdx.x % parts * kWeightThreads + threadIdx.x;
  if (column >= size) return;
  double* out = static_cast<double*>(to.data) + (to.first + r) * to.stride + column;
  const double value = total[r * size + column];
  *out = order::round_to<double>(accumulate ? *out + value : value);
}

// Rows of padding: `width` elements of +0 each.
template <class Bits>
__global__ void __launch_bounds__(kWeightThreads)
    clear_rows(Bits* data, std::int64_t stride, std::int64_t width, std::int64_t parts) {
  const std::int64_t column = blockIdx.x % parts * kWeightThreads + threadIdx.x;
  if (column < width) data[blockIdx.x / parts * stride + column] = 0;
}

}  // namespace samebits::cuda
