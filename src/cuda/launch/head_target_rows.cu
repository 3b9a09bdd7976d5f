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
  const auto run = [&]<class T, int width>(TargetTerms<T, width> terms) {
    terms = {finish.hidden, finish.hidden_stride, finish.row, finish.y};
    const std::int64_t parts = (size + kTargetRowThreads * width - 1) / (kTargetRowThreads * width);
    launch("finish_target_rows", finish_target_rows<T, width>, {positions * parts, kTargetRowThreads}, call,
           finish, terms, kept, columns, size, static_cast<int>(parts));
  };
  const auto by_width = [&]<class T>(T) {
    finish.hidden_in_chunks ? run(TargetTerms<T, 8>{}) : run(TargetTerms<T, 1>{});
  };
  dtype == DType::kBFloat16 ? by_width(BFloat16{}) : by_width(Float16{});
}

}  // namespace samebits::cuda
