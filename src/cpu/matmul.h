// The product of fma.v1, fma64.v1 and tc16.v1 on the CPU.
#pragma once

#include <cstddef>

#include "core/backend.h"
#include "core/matmul_problem.h"
#include "cpu/matmul_kernels.h"
#include "cpu/tc16_kernels.h"

namespace samebits::cpu {

void matmul(const core::MatmulProblem& problem, const core::Executor& executor, const MatmulKernels& kernels,
            const Tc16Kernels& tc16);

// Workspace bytes of a call with that many threads.
std::size_t matmul_scratch_bytes(const core::MatmulProblem& problem, int threads);

}  // namespace samebits::cpu
