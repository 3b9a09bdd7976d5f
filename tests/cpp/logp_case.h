// One logp call, forward and backward, apart from how its tensors lie in memory and how it is run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <samebits/logp.h>

#include "bits.h"
#include "core/logp_problem.h"

namespace samebits::test {

struct LogpCase {
  std::int64_t rows = 0, vocab = 0, columns = 0;  // columns beyond vocab are padding
  Precision precision = Precision::kFromLogits;
  Values logits;                      // [rows, columns]
  std::vector<std::int64_t> targets;  // [rows]

  double temperature = 1.0;
  Values row_temperature;  // [rows] float32 or float64; empty: the scalar
  std::optional<std::vector<std::int64_t>> selected;
  bool keep_unselected = false;
  std::optional<std::int64_t> ignore_index;
  OnInvalid on_invalid = OnInvalid::kZero;

  Values grad_logp, grad_lse, grad_entropy;  // [rows]; empty: not given

  bool binary64() const { return logits.dtype == DType::kFloat64 || precision == Precision::kFloat64; }
  DType real() const { return binary64() ? DType::kFloat64 : DType::kFloat32; }
};

// Every output of a case, dense. What a call leaves alone keeps kFill.
struct LogpResult {
  Values logp, lse, entropy;                 // [rows]
  Values row_max, row_sum, row_entropy_sum;  // [rows], the sums [rows] or [rows, 2] of int64
  Values grad;                               // [rows, columns]
  Values probabilities;                      // [rows, columns]

  explicit LogpResult(const LogpCase& logp_case);
};

// A case of `rows` rows of `vocab` float32 logits, all zero, targets 0, nothing optional.
LogpCase plain_case(std::int64_t rows, std::int64_t vocab, DType dtype = DType::kFloat32);

// Rounds to the type of the logits (or of any floating Values).
void set_element(Values& values, std::int64_t index, double value);

// Rows `picked` of a case, in that order, as a case of its own.
LogpCase take_rows(const LogpCase& logp_case, const std::vector<std::int64_t>& picked);
Values take(const Values& values, std::int64_t per_row, const std::vector<std::int64_t>& picked);

// The scalar twin's answer, by way of the problem structs.
LogpResult twin(const LogpCase& logp_case);

// Compares every output; `finite` as in same_bits, applied to logp only.
::testing::AssertionResult same_result(const LogpResult& expected, const LogpResult& actual,
                                       Finite finite = Finite::kSome);

}  // namespace samebits::test
