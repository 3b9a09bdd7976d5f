#include "cuda/kernel/head_target_rows.cuh"

#include "cuda/launch/launch.h"
#include "cuda/launch/segment_sum.h"

namespace samebits::cuda {

using order::BFloat16, order::Float16;

std::size_t TargetRuns::weight_bytes(std::int64_t capacity, std::int64_t size) {
  return long_run_bytes<float>(capacity, size);
}
std::size_t TargetRuns::bias_bytes(std::int64_t capacity) { return long_run_bytes<float>(capacity, 1); }

void finish_target_rows(const WeightFinish& finish, DType dtype, const float* kept, std::int64_t positions,
                        std::int64_t columns, std::int64_t size, const core::DeviceCall& call) {
  const auto run = [&](auto* kernel, std::int64_t width) {
    const std::int64_t parts = (size + kTargetRowThreads * width - 1) / (kTargetRowThreads * width);
    launch("finish_target_rows", kernel, {positions * parts, kTargetRowThreads}, call, finish, kept, columns,
           size, static_cast<int>(parts));
  };
  if (dtype == DType::kBFloat16)
    finish.hidden_in_chunks ? run(finish_target_rows<BFloat16, 8>, 8)
                            : run(finish_target_rows<BFloat16, 1>, 1);
  else
    finish.hidden_in_chunks ? run(finish_target_rows<Float16, 8>, 8) : run(finish_target_rows<Float16, 1>, 1);
}

}  // namespace samebits::cuda
