// Golden vectors of the embedding: inputs from Rng, outputs recorded by tools/record_embedding_golden.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "embedding_case.h"

namespace samebits::test {

struct EmbeddingGolden {
  std::string name;
  EmbeddingCase embedding;
};

// Every dtype, written and accumulated. A change needs a new recording.
std::vector<EmbeddingGolden> embedding_golden_cases();

// A digest of rows and gradient, and some elements of the gradient.
nlohmann::ordered_json golden_record(const EmbeddingGolden& golden, const EmbeddingResult& result);

}  // namespace samebits::test
