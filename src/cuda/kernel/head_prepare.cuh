// What is known of each row of a head's gradient before the vocabulary is walked. CONTRACT section 4, points 1 to 5.
#pragma once

#include "cuda/kernel/head_gradient_row.cuh"
#include "cuda/kernel/logp_backward.cuh"
#include "cuda/launch/head_gradient.h"
#include "cuda/prim/kernel_order.cuh"

namespace samebits::cuda {

inline constexpr int kLargestThreads = 256;

// Over a matrix of `rows` by `columns`; a warp per row.
template <class T>
__global__ void __launch_bounds__(kLargestThreads)
    largest_element(const core::Operand matrix, std::int64_t rows, std::int64_t columns,
                    std::uint32_t* most) {
  constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));
  constexpr std::uint32_t kMagnitude = sizeof(T) == 4 ? 0x7fffffffu : 0x7fff7fffu;
  const int lane = threadIdx.x % 32;
  std::uint32_t words = 0, here = 0;  // words: the largest of each half, or of a whole float
  const auto meet = [&](std::uint32_t word) {
    if constexpr (sizeof(T) == 4)
      words = max(words, word & kMagnitude);
    else
      words = __vmaxu2(words, word & kMagnitude);
  };
  const std::int64_t warps = gridDim.x * std::int64_t{kLargestThreads / 32};
  for (std::int64_t r = blockIdx.x * std::int64_t{kLargestThreads / 32} + threadIdx.x / 32; r < rows;
       r += warps) {
    const T* row = static_cast<const T*>(matrix.data) + r * matrix.row_stride;
    std::int64_t k = 0;
    if (matrix.column_stride == 1 && reinterpret_cast<std::uintptr_t>(row) % 16 == 0) {
#pragma unroll 4
      for (std::int64_t v = lane; v < columns / kPerVector; v += 32) {
        const uint4 vector = __ldg(reinterpret_cast<const uint4*>(row) + v);
        meet(vector.x), meet(vector.y), meet(vector.z), meet(vector.w);
      }
      k = columns / kPerVector * kPerVector;
    }
    for (k += lane; k < columns; k += 32)
      here = max(here, __float_as_uint(order::to_float(row[k * matrix.column_stride])) & 0x7fffffffu);
  }
  if constexpr (sizeof(T) == 4) {
    here = max(here, words);
  } else {
    for (const std::uint32_t half : {words & 0xffffu, words >> 16})
      here = max(here, __float_as_uint(order::to_float(T{static_cast<std::uint16_t>(half)})));
  }
  raise_to(most, here);
}

inline constexpr int kPrepareThreads = 128;

__device__ __forceinline__ void prepare(const order::RowStats<order::RowV1>& stats,
                                        const order::GradientRow<order::RowV1>& gradient, float z,
                                        const Upstreams<float>& up, order::Reference rule, order::PRow& row,
                                        float& y) {
  row = {};
  row.kind = order::classify(stats.max);
  y = row.scale = row.kind == order::RowClass::kNan ? order::canonical_nan<float>() : 0.0f;
  if (row.kind != order::RowClass::kFinite) return;
  row = order::p_row(stats, gradient, order::reference_of(rule, stats, z), up.g, up.h, up.e);
  y = order::gradient_target(gradient, z);
}

// `logit` is that of the target, without bias.
template <class Row>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_rows(const __grid_constant__ core::LinearLogpProblem head,
                 const __grid_constant__ HeadGradientRows<Row> at, const typename Row::Real* logit,
                 order::Reference rule) {
  follow_kernel_ahead();
  using Real = typename Row::Real;
  const core::LogpProblem& logp = head.logp;
  const std::int64_t position = blockIdx.x * std::int64_t{kPrepareThreads} + threadIdx.x;
  std::uint32_t scale = 0;
  if (position < *at.list.count) {
    const std::int64_t row = at.list.row[position];
    const Real it =
        at.list.inverse_tau == nullptr ? Real(1) : static_cast<const Real*>(at.list.inverse_tau)[position];
    const Real z = target_z(head, at.list, position, logit[position]);
    const order::RowStats<Row> stats{static_cast<const Real*>(logp.saved_max)[row],
                                     load_sum<Row>(logp.saved_sum, row),
                                     load_sum<Row>(logp.saved_entropy_sum, row)};
    const Upstreams<Real> up{upstream<Row>(logp.grad_logp, row), upstream<Row>(logp.grad_lse, row),
                             upstream<Row>(logp.grad_entropy, row)};
    const auto gradient = order::gradient_row<Row>(stats, z, it, up.g, up.h, up.e);
    GradientForm<Row>& form = at.form[position];
    if constexpr (sizeof(Real) == 8) {
      form = {order::classify(stats.max), gradient, order::gradient_target(gradient, z)};
    } else {
      order::PRow p;
      float y;
      prepare(stats, gradient, z, up, rule, p, y);
      form = p;
      at.y[position] = y;
      at.exponent[position] = counting_exponent(p, __uint_as_float(at.scalars->largest_weight));
      at.nan_row[position] = 0;
      if (order::is_finite(p.scale)) scale = __float_as_uint(p.scale) & 0x7fffffffu;
    }
  }
  raise_to(&at.scalars->largest_scale, scale);
}

}  // namespace samebits::cuda
