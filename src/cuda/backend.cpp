// The CUDA library's line in the table of device backends.
#include <samebits/cuda.h>

#include "cuda/launch/operators.h"
#include "cuda/runtime.h"

namespace samebits::cuda {
namespace {

constexpr core::DeviceBackend kBackend = {
    "cuda",
    [](Device device) { return traits(device).name; },
    [](Device device) { return traits(device).architecture; },
    logp_forward,
    logp_backward,
    probability,
    row_sum,
    logp_scratch_bytes,
    row_sum_scratch_bytes,
};

}  // namespace

void enable() { core::register_device_backend(DeviceType::kCuda, &kBackend); }

}  // namespace samebits::cuda
