// How the rows of a head are computed: fused, or as a product in parts followed by logp. The bits are the same.
#pragma once

#include <cstdint>
#include <string>

#include "cli/common_options.h"
#include "cli/head.h"
#include "cli/logp_job.h"

namespace samebits::cli {

/// Most rows of one call; 0 for no limit. Logits are held by the scalar twin and for a weight in several parts or not
/// aligned to its elements: 128 MiB at most, or one row.
std::int64_t most_rows_of_call(const Head& head, bool twin);

/// Computes logp of hidden @ weight.T + bias. `contract` is "fma" or "tc16"; `head` must outlive the function.
ForwardFunction head_forward(const Head& head, const std::string& contract, const RunOptions& run, bool twin);

}  // namespace samebits::cli
