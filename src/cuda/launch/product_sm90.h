// The wgmma engine of tc16 products.
#pragma once

#include "cuda/launch/product.h"
#include "cuda/launch/sm90_choices.h"

namespace samebits::cuda {

std::string no_sm90_product(const Product& product, Device device);
std::size_t sm90_product_scratch_bytes(const Product& product, Device device);
void product_sm90(const Product& product, const core::DeviceCall& call);
// The same with choices of a complete table that is given.
void product_sm90_by(Sm90Choices choices, const Product& product, const core::DeviceCall& call);

}  // namespace samebits::cuda
