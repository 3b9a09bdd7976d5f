// The product engine of cuBLASLt.
#pragma once

#include "cuda/launch/product.h"

namespace samebits::cuda {

std::string no_cublaslt(const Product& product, Device device);
std::size_t cublaslt_scratch_bytes(const Product& product, Device device);
void product_cublaslt(const Product& product, const core::DeviceCall& call);

}  // namespace samebits::cuda
