// The scalar twins of the embedding's lookup and gradient: same effect as a backend's entry.
#pragma once

#include "core/embedding_problem.h"

namespace samebits::ref {

void embedding_forward(const core::EmbeddingProblem& problem);
void embedding_backward(const core::EmbeddingProblem& problem);

}  // namespace samebits::ref
