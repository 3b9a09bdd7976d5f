// probability and row_sum on the CPU: spread rows, or blocks of a row, over threads.
#pragma once

#include "core/backend.h"
#include "cpu/row_kernels.h"

namespace samebits::cpu {

void probability(const core::LogpProblem& problem, const core::Executor& executor, Isa isa);
void row_sum(const core::RowSumProblem& problem, const core::Executor& executor, Isa isa);

// Workspace bytes of a row_sum call with that many threads.
std::size_t row_sum_scratch_bytes(const core::RowSumProblem& problem, int threads);

}  // namespace samebits::cpu
