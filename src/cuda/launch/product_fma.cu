// Launch of the products on CUDA cores.
#include "cuda/kernel/product_fma.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

template <class Real>
void run(const Product& product, const core::DeviceCall& call) {
  constexpr std::int64_t kSize = FmaTile<Real>::kSize;
  const std::int64_t row_tiles = (product.rows + kSize - 1) / kSize;
  const std::int64_t column_tiles = (product.columns + kSize - 1) / kSize;
  const auto kernel =
      product.depth > order::kSegment ? product_fma_tile<Real, true> : product_fma_tile<Real, false>;
  launch("product_fma_tile", kernel, {row_tiles * column_tiles, kFmaThreads}, call, product);
}

}  // namespace

void product_fma(const Product& product, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  product.a_dtype == DType::kFloat64 ? run<double>(product, call) : run<float>(product, call);
}

}  // namespace samebits::cuda
