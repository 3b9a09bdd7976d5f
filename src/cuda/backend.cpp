// The CUDA library's line in the table of device backends.
#include <samebits/cuda.h>

#include "cuda/launch/operators.h"
#include "cuda/runtime.h"

namespace samebits::cuda {
namespace {

constexpr core::DeviceBackend kBackend = {
    .name = "cuda",
    .device_name = [](Device device) { return traits(device).name; },
    .architecture = [](Device device) { return traits(device).architecture; },
    .logp_forward = logp_forward,
    .logp_backward = logp_backward,
    .probability = probability,
    .row_sum = row_sum,
    .logp_scratch_bytes = logp_scratch_bytes,
    .row_sum_scratch_bytes = row_sum_scratch_bytes,
    .matmul = matmul,
    .matmul_scratch_bytes = matmul_scratch_bytes,
    .product_engines = matmul_engines,
    .tc16_probe = tc16_probe,
    .linear_logp_forward = linear_logp_forward,
    .linear_logp_backward = linear_logp_backward,
    .linear_logp_scratch_bytes = linear_logp_scratch_bytes,
    .linear_logp_backward_scratch_bytes = linear_logp_backward_scratch_bytes,
    .linear_logp_engines = linear_logp_engines,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .embedding_backward_scratch_bytes = embedding_backward_scratch_bytes,
};

}  // namespace

void enable() { core::register_device_backend(DeviceType::kCuda, &kBackend); }

}  // namespace samebits::cuda
