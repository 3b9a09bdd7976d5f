// The backward pass of logits, as its caller's workspace sees it.
#pragma once

#include <cstddef>

#include "core/logp_problem.h"

namespace samebits::cuda {

// Bytes of what is known of each row before its columns are walked; 0 where rows are few.
std::size_t gradient_rows_bytes(const core::LogpProblem& problem);

}  // namespace samebits::cuda
