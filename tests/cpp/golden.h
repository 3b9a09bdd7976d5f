// Golden vectors of row.v1 and row64.v1: inputs from Rng, outputs recorded as hex by tools/record_golden.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "logp_case.h"

namespace samebits::test {

struct GoldenCase {
  std::string name;
  LogpCase logp_case;

  const char* contract() const { return logp_case.binary64() ? "row64.v1" : "row.v1"; }
};

// An element's bits as hex, and FNV-1a of all bytes.
std::string hex_element(const Values& values, std::int64_t index);
std::string digest(const std::byte* bytes, std::int64_t count);

// Every case of both contracts. A change here needs a new recording.
std::vector<GoldenCase> golden_cases();

// One row for row_sum.
struct RowSumGolden {
  std::string name;
  Values values;
};
std::vector<RowSumGolden> row_sum_golden_cases();
nlohmann::ordered_json golden_record(const RowSumGolden& golden, const Values& sum);

// What is recorded of a result: all outputs; of the gradient a digest and four columns of each row, of the
// probabilities a digest of each row.
nlohmann::ordered_json golden_record(const GoldenCase& golden, const LogpResult& result);

}  // namespace samebits::test
