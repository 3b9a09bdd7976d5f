#include "cuda/launch/product_finish.h"

#include "cuda/kernel/product.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

constexpr int kThreads = 256, kMine = 4;

__global__ __launch_bounds__(kThreads) void product_finish_elements(const __grid_constant__ Product p,
                                                                    const float* sums, std::int64_t stride,
                                                                    std::int64_t parts) {
  const std::int64_t row = blockIdx.x / parts;
  const std::int64_t first = (blockIdx.x - row * parts) * (kThreads * kMine) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const std::int64_t column = first + i * kThreads;
    if (column >= p.columns) continue;
    float value = sums[row * stride + column];
    if (p.bias != nullptr) value = value + bias_of<float>(p, column);
    store_element(p, row, column, value);
  }
}

}  // namespace

void product_finish(const Product& product, const float* sums, std::int64_t stride,
                    const core::DeviceCall& call) {
  const std::int64_t parts = (product.columns + kThreads * kMine - 1) / (kThreads * kMine);
  launch("product_finish_elements", product_finish_elements, {product.rows * parts, kThreads}, call, product,
         sums, stride, parts);
}

}  // namespace samebits::cuda
