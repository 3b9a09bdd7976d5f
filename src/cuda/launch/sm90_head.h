// The engine of linear log-probabilities for SM90a.
#pragma once

#include <memory>
#include <string>

#include "cuda/launch/head_engine.h"
#include "cuda/launch/sm90_choices.h"
#include "cuda/runtime.h"

namespace samebits::cuda {

// Why it does not take the call; empty when it does.
std::string no_sm90_head(const HeadShape& shape, Device device);

std::unique_ptr<HeadEngine> make_sm90_head(const HeadShape& shape, Device device);
// The same with choices of a complete table that is given, and that lives as long.
std::unique_ptr<HeadEngine> make_sm90_head_by(Sm90Choices choices, const HeadShape& shape, Device device);

}  // namespace samebits::cuda
