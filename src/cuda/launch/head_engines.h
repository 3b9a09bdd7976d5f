// Which engine computes the products of a head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/launch/head_engine.h"

namespace samebits::cuda {

struct HeadEngineChoice {
  std::unique_ptr<HeadEngine> engine;
  std::vector<std::string> refusals;  // of the engines before it, each with its name
};

// The first engine, fastest first, that takes a head of this shape on `device`; the last one takes every head.
HeadEngineChoice make_head_engine(const HeadShape& shape, Device device);

}  // namespace samebits::cuda
