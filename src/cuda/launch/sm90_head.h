// The engine of linear log-probabilities for SM90a.
#pragma once

#include <memory>
#include <string>

#include "cuda/launch/head_engine.h"
#include "cuda/runtime.h"

namespace samebits::cuda {

// Why it does not take the call; empty when it does.
std::string no_sm90_head(const HeadShape& shape, Device device);

std::unique_ptr<HeadEngine> make_sm90_head(const HeadShape& shape, Device device);

}  // namespace samebits::cuda
