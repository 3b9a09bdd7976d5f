// The embedding's lookup and gradient on the CPU: rows, and segments of long sums, are spread over threads.
#pragma once

#include "core/backend.h"

namespace samebits::cpu {

void embedding_forward(const core::EmbeddingProblem& problem, const core::Executor& executor);
void embedding_backward(const core::EmbeddingProblem& problem, const core::Executor& executor);

// Workspace bytes of a gradient.
std::size_t embedding_backward_scratch_bytes(const core::EmbeddingProblem& problem, int threads);

}  // namespace samebits::cpu
