// The operators of this room, as the backend table names them.
#pragma once

#include "core/device_backend.h"
#include "core/embedding_problem.h"

namespace samebits::cuda {

void logp_forward(core::LogpProblem problem, const core::DeviceCall& call);
void logp_backward(core::LogpProblem problem, const core::DeviceCall& call);
void probability(core::LogpProblem problem, const core::DeviceCall& call);
void row_sum(const core::RowSumProblem& problem, const core::DeviceCall& call);
void matmul(const core::MatmulProblem& problem, const core::DeviceCall& call);
void linear_logp_forward(core::LinearLogpProblem head, const core::DeviceCall& call);
void linear_logp_backward(core::LinearLogpGradient problem, const core::DeviceCall& call);
void embedding_forward(const core::EmbeddingProblem& problem, const core::DeviceCall& call);
void embedding_backward(const core::EmbeddingProblem& problem, const core::DeviceCall& call);

std::size_t logp_scratch_bytes(const core::LogpProblem& problem, const core::DeviceCall& call);
std::size_t row_sum_scratch_bytes(const core::RowSumProblem& problem, const core::DeviceCall& call);
std::size_t matmul_scratch_bytes(const core::MatmulProblem& problem, const core::DeviceCall& call);
std::size_t linear_logp_scratch_bytes(const core::LinearLogpProblem& head, const core::DeviceCall& call);
std::vector<core::ProductEngineAnswer> linear_logp_engines(const core::LinearLogpProblem& head,
                                                           Device device);
std::size_t linear_logp_backward_scratch_bytes(const core::LinearLogpGradient& problem,
                                               const core::DeviceCall& call);
std::size_t embedding_backward_scratch_bytes(const core::EmbeddingProblem& problem,
                                             const core::DeviceCall& call);

std::vector<core::ProductEngineAnswer> matmul_engines(const core::MatmulProblem& problem, Device device);
std::string tc16_probe(Device device);

}  // namespace samebits::cuda
