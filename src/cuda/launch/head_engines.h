// Which engine computes the products of a head.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/launch/head_engine.h"

namespace samebits::cuda {

// One way to compute them.
struct HeadEngineEntry {
  const char* name;
  // Why it does not take heads of this shape on the device; empty when it does.
  std::string (*refusal)(const HeadShape&, Device);
  std::unique_ptr<HeadEngine> (*make)(const HeadShape&, Device);
};

// Every engine, fastest first; the last one takes every head.
std::span<const HeadEngineEntry> head_engines();

struct HeadEngineChoice {
  std::unique_ptr<HeadEngine> engine;
  std::vector<std::string> refusals;  // of the engines before it, each with its name
};

// The first engine that takes a head of this shape on `device`. Throws Error where the contract is tc16.v1 and the
// device's tensor cores do not follow it.
HeadEngineChoice make_head_engine(const HeadShape& shape, Device device);

}  // namespace samebits::cuda
