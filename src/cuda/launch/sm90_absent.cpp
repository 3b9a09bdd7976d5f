// In place of the kernels for SM90a in a build for other architectures.
#ifndef SAMEBITS_CUDA_SM90

#include "cuda/launch/product_sm90.h"
#include "cuda/launch/sm90_head.h"

namespace samebits::cuda {
namespace {

constexpr const char* kAbsent = "this build has no kernels for SM90 (SAMEBITS_CUDA_ARCHS)";

}  // namespace

std::string no_sm90_head(const HeadShape&, Device) { return kAbsent; }
std::unique_ptr<HeadEngine> make_sm90_head(const HeadShape&, Device) { return nullptr; }
std::unique_ptr<HeadEngine> make_sm90_head_by(Sm90Choices, const HeadShape&, Device) { return nullptr; }

std::string no_sm90_product(const Product&, Device) { return kAbsent; }
std::size_t sm90_product_scratch_bytes(const Product&, Device) { return 0; }
void product_sm90(const Product&, const core::DeviceCall&) {}
void product_sm90_by(Sm90Choices, const Product&, const core::DeviceCall&) {}

}  // namespace samebits::cuda

#endif
