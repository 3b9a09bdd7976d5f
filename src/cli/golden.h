// Golden vectors that travel inside the command: results every build on every machine must give.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/selftest_case.h"

namespace samebits::cli {

/// Inputs by an integer formula (see golden_case), and what logp, lse and entropy of the row and a digest of its
/// gradient are, in hex.
struct Golden {
  DType dtype;
  std::int64_t vocab;
  double temperature;
  std::uint64_t logp, lse, entropy, gradient;
};

/// The recorded vectors.
std::span<const Golden> golden_vectors();

/// The inputs of a vector: logit i is ((i * 2654435761 + vocab) mod 2^32 >> 24) / 16 - 8, target vocab / 3, upstream
/// gradients 1, 0.5 and -0.25.
SelftestCase golden_case(const Golden& golden);

/// What a run gave, in the place of the recorded values.
Golden golden_of(const Golden& golden, const SelftestResult& result);

/// One line of golden.cpp's table.
std::string golden_text(const Golden& golden);

}  // namespace samebits::cli
