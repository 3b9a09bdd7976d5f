// What comes before every operator on logits: the row list becomes a bitmap, and bad ids are looked for when asked.
#pragma once

#include "cuda/runtime.h"

namespace samebits::cuda {

// Bytes of the bitmap.
std::size_t selection_bytes(const core::LogpProblem& problem, const core::DeviceCall& call);

// Bytes of a call that needs `bytes` of its own.
std::size_t with_row_list(const core::LogpProblem& problem, const core::DeviceCall& call, std::size_t bytes);

// Makes the bitmap in `scratch`, and under OnInvalid::kRaise waits and throws when an id is bad.
void take_row_list(core::LogpProblem& problem, const core::DeviceCall& call, Scratch& scratch);

}  // namespace samebits::cuda
