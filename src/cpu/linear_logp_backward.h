// The gradient of log-probabilities fused with the LM head on the CPU: the P form of fma.v1, and fma64.v1 unfused.
#pragma once

#include <cstddef>

#include "core/backend.h"
#include "core/linear_logp_gradient.h"
#include "cpu/row_kernels.h"

namespace samebits::cpu {

void linear_logp_backward(const core::LinearLogpGradient& problem, const core::Executor& executor, Isa isa);

// Workspace bytes of a call with that many threads: parts of P and of X of bounded size, and 8 bytes per element of
// hidden where its gradient is wanted.
std::size_t linear_logp_backward_scratch_bytes(const core::LinearLogpGradient& problem, int threads);

}  // namespace samebits::cpu
