// X, and the end of grad_weight. CONTRACT section 4, point 6.
#pragma once

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/kernel/segment_sum.cuh"
#include "cuda/launch/head_gradient.h"
#include "cuda/launch/head_weight.h"
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
        for (std::int64_t v = lane; v < head.hidden_size / 8; v += 32) {
          Vector<T> values;
          values.load(reinterpret_cast<const char*>(from + 8 * v));
          float scaled[8];
#pragma unroll
          for (int e = 0; e < 8; ++e) scaled[e] = scale * values.get(e);
          values.set(scaled);
          values.store(reinterpret_cast<char*>(to + 8 * v));
        }
        k = head.hidden_size / 8 * 8;
      }
    for (std::int64_t e = k + lane; e < head.hidden_size; e += 32)
      to[e] = order::round_to<Stored>(scale * order::to_float(from[e * head.hidden_stride]));
    k = head.hidden_size;
  }
  for (std::int64_t e = k + lane; e < x_stride; e += 32) to[e] = order::round_to<Stored>(0.0f);
}

// y times hidden of the rows with one target; `width` elements at a time where rows are dense and aligned to them.
template <class T, int width>
struct TargetTerms {
  using Real = float;
  static constexpr int kWidth = width, kAhead = width > 1 ? 4 : 1;
  struct alignas(width * sizeof(T)) Elements {
    T value[width];
  };
  struct Values {
    float y;
    Elements hidden;
  };

  core::RowArray<const void> hidden;
  std::int64_t stride;
  const std::int32_t* row;  // by position
  const float* y;

  __device__ __forceinline__ Values load(std::int64_t position, std::int64_t column) const {
    const T* from = hidden.at<T>(row[position]);
    if constexpr (width == 1)
      return {y[position], {{from[column * stride]}}};
    else
      return {y[position], *reinterpret_cast<const Elements*>(from + column)};
  }
  __device__ __forceinline__ static float value_of(T element) {
    if constexpr (sizeof(T) == 2)
      return pair_value<T>(element.bits, 0);
    else
      return element;
  }
  __device__ __forceinline__ static void add(const Values& values, float (&sum)[width]) {
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] = order::fma(values.y, value_of(values.hidden.value[i]), sum[i]);
  }
};

// The same of grad_bias: y alone.
struct TargetOnes {
  using Real = float;
  using Values = float;
  static constexpr int kWidth = 1, kAhead = 8;
  const float* y;

  __device__ __forceinline__ Values load(std::int64_t position, std::int64_t) const { return y[position]; }
  __device__ __forceinline__ static void add(Values value, float (&sum)[1]) { sum[0] = sum[0] + value; }
};

inline constexpr int kWeightThreads = 256;

// Rows of grad_weight, written or added to.
struct WeightRows {
  void* data;  // row 0 of the weight
  std::int64_t stride;
  std::int64_t first, rows;  // from the one that is the first of `total` on
  bool left_alone;           // only those that an engine left in side rows, or in the total
  SideRows side;
};

template <class T, int width>
struct alignas(width * sizeof(T) < 16 ? width * sizeof(T) : 16) WeightElements {
  T value[width];
};

// Items (row of `total`, part of its columns), part fastest. Where an engine kept the rows by their entries, an entry that
// is no run's first has no row. Out is T, or float for an accumulator.
template <class T, class Out, int width, bool accumulate>
__global__ void __launch_bounds__(kWeightThreads)
    finish_weight(const float* total, std::int64_t size, const __grid_constant__ TargetTerms<T, width> terms,
                  const __grid_constant__ IdRuns runs, const LongRuns<float> long_runs,
                  const HeadScalars* scalars, const WeightRows to, std::int64_t parts) {
  const std::int64_t row = blockIdx.x / parts;
  const std::int64_t column = (blockIdx.x % parts * kWeightThreads + threadIdx.x) * width;
  if (column >= size) return;
  std::int64_t r = row;
  if (to.side.entries != nullptr) {
    const std::int64_t entry = to.side.first_entry() + row;
    if (entry >= runs.capacity) return;
    r = static_cast<std::int64_t>(runs.order.id[entry]) - to.first;
    if (r < 0 || r >= to.rows || runs.run[to.first + r].first != entry) return;
  }
  const IdRun run = runs.run[to.first + r];
  if (to.left_alone && run.first == run.end) return;
  float value[width], own[width] = {};
  if (run.first != run.end) sum_run(terms, runs, run, long_runs, column, own);
  const auto from = *reinterpret_cast<const WeightElements<float, width>*>(total + row * size + column);
  const double up = order::power_of_2(scale_exponent(*scalars));
#pragma unroll
  for (int i = 0; i < width; ++i)
    value[i] = static_cast<float>(static_cast<double>(from.value[i]) * up) + own[i];
  auto* out = reinterpret_cast<WeightElements<Out, width>*>(static_cast<Out*>(to.data) +
                                                            (to.first + r) * to.stride + column);
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
