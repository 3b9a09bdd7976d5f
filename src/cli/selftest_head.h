// The self-test of the gradients of linear_logp.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/selftest_product.h"

namespace samebits::cli {

/// grad_hidden and grad_weight of a case's linear_logp as raw bytes, one after the other. Upstreams of logp and, in
/// every other case, of the entropy are a formula of the row. Each row has the target that linear_logp_by_library
/// gives it. For cases of some depth.
std::vector<std::byte> head_gradients_by_library(const ProductCase& test, const ExecContext& context);
std::vector<std::byte> head_gradients_by_twin(const ProductCase& test);

}  // namespace samebits::cli
