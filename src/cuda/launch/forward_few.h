// The forward pass of few rows, by clusters. No choice here can change a bit.
#pragma once

#include "core/device_backend.h"

namespace samebits::cuda {

// Launches it, or returns false where other kernels are better or this one cannot run. The device must have clusters.
bool forward_few(const core::LogpProblem& problem, const core::DeviceCall& call);

}  // namespace samebits::cuda
