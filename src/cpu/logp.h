// logp on the CPU: spreads rows, or blocks of a row, over threads.
#pragma once

#include "core/backend.h"
#include "cpu/row_kernels.h"

namespace samebits::cpu {

void logp_forward(const core::LogpProblem& problem, const core::Executor& executor, Isa isa);
void logp_backward(const core::LogpProblem& problem, const core::Executor& executor, Isa isa);

// Workspace bytes of a call with that many threads.
std::size_t logp_scratch_bytes(const core::LogpProblem& problem, int threads);

}  // namespace samebits::cpu
