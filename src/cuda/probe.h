// Whether a device's tensor cores follow tc16.v1 (CONTRACT section 2): products whose results the CPU knows, computed
// through an engine when it is first used on that device. The only thing in this room that waits for the device.
#pragma once

#include <string>

#include "cuda/launch/product.h"

namespace samebits::cuda {

struct ProbeResult {
  bool passed = false;
  std::string text;  // how much was compared, or what differs
};

// Cached for each device and engine. Runs on a stream of its own, so that a capture in progress is left alone; throws
// Error, and remembers nothing, when the device cannot run it at that moment.
const ProbeResult& probe(const ProductEngine& engine, Device device);

// Throws Error naming contract='fma' unless `engine` follows the contract on the device.
void require_tc16(const ProductEngine& engine, Device device);

// The same for every tensor-core engine that may be chosen on this device without being named.
void require_tc16(Device device);

}  // namespace samebits::cuda
