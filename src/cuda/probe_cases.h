// The products of the probe, and their results by the contract's own step on the host.
#pragma once

#include <cstdint>
#include <vector>

#include <samebits/dtype.h>

namespace samebits::cuda {

// a is [rows, depth], b is [columns, depth]; every sum is one chain.
struct ProbeCase {
  const char* family;
  DType dtype;
  int rows, columns, depth;
  std::vector<std::uint16_t> a, b;
  std::vector<std::uint32_t> expected;  // bits, [rows, columns]
};

// Made at the first call.
const std::vector<ProbeCase>& probe_cases();

}  // namespace samebits::cuda
