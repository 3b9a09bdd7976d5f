// Golden vectors of the gradients of linear_logp: inputs from Rng, outputs recorded by tools/record_head_golden.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "head_case.h"

namespace samebits::test {

struct HeadGolden {
  std::string name;
  HeadCase head;
};

// Every contract and operand type, with and without an upstream of the entropy. A change needs a new recording.
std::vector<HeadGolden> head_golden_cases();

// A digest of each gradient and some of its elements.
nlohmann::ordered_json golden_record(const HeadGolden& golden, const HeadGradients& gradients);

}  // namespace samebits::test
