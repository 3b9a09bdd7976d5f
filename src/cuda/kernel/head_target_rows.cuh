// The end of grad_weight's rows that are somebody's target. CONTRACT section 4, point 6.
#pragma once

#include "cuda/kernel/head_weight.cuh"

namespace samebits::cuda {

inline constexpr int kTargetRowThreads = 192;

// Rows of grad_weight that are somebody's target, of which the totals are kept: that of a run lies where it begins. CTAs (entry
// of the order, part of the columns), part fastest; a thread has `width` of them. `terms`: of `finish`; made here they would lie
// in local memory.
template <class T, int width>
__global__ void __launch_bounds__(kTargetRowThreads)
    finish_target_rows(const __grid_constant__ WeightFinish finish,
                       const __grid_constant__ TargetTerms<T, width> terms, const float* kept,
                       std::int64_t columns, std::int64_t size, int parts) {
  let_kernel_behind_start();
  const unsigned entry = blockIdx.x / parts;
  const std::int64_t column = (blockIdx.x % parts * std::int64_t{kTargetRowThreads} + threadIdx.x) * width;
  const std::int64_t row = finish.order.id[entry] - finish.column;
  if (row < 0 || row >= columns || column >= size) return;
  const IdRun run = finish.run[row];
  if (run.first != entry) return;
  const auto total = *reinterpret_cast<const WeightElements<float, width>*>(kept + entry * size + column);
  const double up = order::power_of_2(scale_exponent(*finish.scalars));
  float own[width];
  sum_run(terms, finish.order.position, run, finish.long_runs, column, own);
  WeightElements<T, width> result;
#pragma unroll
  for (int i = 0; i < width; ++i)
    result.value[i] =
        order::round_to<T>(static_cast<float>(static_cast<double>(total.value[i]) * up) + own[i]);
  *reinterpret_cast<WeightElements<T, width>*>(static_cast<T*>(finish.out) + row * finish.stride + column) =
      result;
}

}  // namespace samebits::cuda
