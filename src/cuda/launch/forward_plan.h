// How the rows of a forward pass are cut. No choice here can change a bit.
#pragma once

#include "cuda/launch/launch.h"

namespace samebits::cuda {

struct ForwardPlan {
  bool entropy;
  bool cluster;  // the parts of a row meet in a cluster, else in global memory
  bool spread;   // logp_forward_spread can take the rows, which are not cut
  int parts, part_blocks;
  int warps;   // of a CTA
  bool pairs;  // logp_forward_pairs takes the rows
  // Rows that start last, cut in two for a launch of their own, which fills up what those before leave idle as they end.
  std::int64_t last_rows;
  int last_part_blocks;
  std::int64_t rows_per_turn;
  std::size_t stats_bytes, counter_bytes;  // of a turn, in global memory
};

// `clusters`: the kernels were compiled for an architecture that has them.
ForwardPlan plan_forward(const core::LogpProblem& problem, const DeviceTraits& device, bool clusters);

}  // namespace samebits::cuda
