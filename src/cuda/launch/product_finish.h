// The end of a product whose float32 sums are in memory.
#pragma once

#include "cuda/launch/product.h"

namespace samebits::cuda {

// out = sums (rows `stride` apart) plus the bias, rounded.
void product_finish(const Product& product, const float* sums, std::int64_t stride,
                    const core::DeviceCall& call);

}  // namespace samebits::cuda
