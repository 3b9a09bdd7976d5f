// Log-probabilities fused with the LM head on the CPU: fma.v1+row.v1, tc16.v1+row.v1 and fma64.v1+row64.v1, forward.
#pragma once

#include <cstddef>

#include "core/backend.h"
#include "core/matmul_problem.h"
#include "cpu/matmul_kernels.h"
#include "cpu/row_kernels.h"
#include "cpu/tc16_kernels.h"

namespace samebits::cpu {

// The inner loops of one instruction set that linear_logp needs.
struct LinearLogpKernels {
  const MatmulKernels& matmul;
  const Tc16Kernels& tc16;
  const RowKernels<order::RowV1>& row;
  const RowKernels<order::Row64V1>& row64;
};

void linear_logp_forward(const core::LinearLogpProblem& problem, const core::Executor& executor,
                         const LinearLogpKernels& kernels);

// Workspace bytes of a call with that many threads: bounded whatever the number of rows, and never [rows, vocab].
std::size_t linear_logp_scratch_bytes(const core::LinearLogpProblem& problem, int threads);

}  // namespace samebits::cpu
