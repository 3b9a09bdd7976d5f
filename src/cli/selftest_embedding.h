// The self-test of the embedding.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/selftest_product.h"

namespace samebits::cli {

/// Rows of b of a case, whose ids are a formula of the row, then the gradient of b with a as the upstream, as raw bytes.
/// For cases of some depth.
std::vector<std::byte> embedding_by_library(const ProductCase& test, const ExecContext& context);
std::vector<std::byte> embedding_by_twin(const ProductCase& test);

}  // namespace samebits::cli
