// The operators of this room, as the backend table names them.
#pragma once

#include "core/device_backend.h"

namespace samebits::cuda {

void logp_forward(core::LogpProblem problem, const core::DeviceCall& call);
void logp_backward(core::LogpProblem problem, const core::DeviceCall& call);
void probability(core::LogpProblem problem, const core::DeviceCall& call);
void row_sum(const core::RowSumProblem& problem, const core::DeviceCall& call);

std::size_t logp_scratch_bytes(const core::LogpProblem& problem, const core::DeviceCall& call);
std::size_t row_sum_scratch_bytes(const core::RowSumProblem& problem, const core::DeviceCall& call);

}  // namespace samebits::cuda
