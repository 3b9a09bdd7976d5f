// How the rows of a head are computed: fused, or as a product in parts followed by logp. The bits are the same.
#pragma once

#include <cstdint>
#include <string>

#include "cli/common_options.h"
#include "cli/head.h"
#include "cli/logp_job.h"

namespace samebits::cli {

/// Most rows of one call of an unfused forward, which holds their logits.
inline constexpr std::int64_t kUnfusedRows = 128;

/// Whether head_forward() would hold logits: the scalar twin, and a weight in several parts or not aligned.
bool is_unfused(const Head& head, bool twin);

/// Computes logp of hidden @ weight.T + bias. `contract` is "fma" or "tc16"; `head` must outlive the function.
ForwardFunction head_forward(const Head& head, const std::string& contract, const RunOptions& run, bool twin);

}  // namespace samebits::cli
