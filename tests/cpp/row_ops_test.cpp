// probability and row_sum: every check of their own arguments, and the accuracy of a probability. The bits of
// probability are compared wherever those of logp are (run_case.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "ref/oracle.h"
#include "rng.h"
#include "row_sum_case.h"
#include "run_case.h"

namespace samebits::test {
namespace {

// Calls that would succeed; each test spoils one thing.
struct Call {
  static constexpr std::int64_t kRows = 2, kVocab = 5;
  float logits[kRows * kVocab] = {}, probabilities[kRows * kVocab], row_max[kRows] = {}, sums[kRows];
  std::int64_t targets[kRows] = {1, 4}, fixed_sum[kRows] = {std::int64_t{5} << 40, std::int64_t{5} << 40};
  std::int64_t rows[kRows] = {0, 1};

  ConstTensorView logits_view{logits, DType::kFloat32, {kRows, kVocab}};
  ConstTensorView targets_view{targets, DType::kInt64, {kRows}};
  TensorView probabilities_view{probabilities, DType::kFloat32, {kRows, kVocab}};
  TensorView sums_view{sums, DType::kFloat32, {kRows}};
  LogpStats stats{{row_max, DType::kFloat32, {kRows}}, {fixed_sum, DType::kInt64, {kRows}}, {}};
  LogpOptions options;
  ExecContext context;

  Call() {
    std::memset(probabilities, 0x5a, sizeof probabilities);
    std::memset(sums, 0x5a, sizeof sums);
  }
  void probability() {
    samebits::probability(logits_view, targets_view, options, stats, probabilities_view, context);
  }
  void row_sum() { samebits::row_sum(logits_view, sums_view, context); }

  bool outputs_are_untouched() const {
    const Call blank;
    return std::memcmp(probabilities, blank.probabilities, sizeof probabilities) == 0 &&
           std::memcmp(sums, blank.sums, sizeof sums) == 0;
  }
};

struct Refusal {
  void (Call::*call)();
  ErrorCode code;
  const char* argument;
  const char* was;     // what the message says it was
  const char* may_be;  // and what it may be
  std::function<void(Call&)> spoil;
};

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr auto kType = ErrorCode::kType;

const std::vector<Refusal>& refusals() {
  constexpr auto kProbability = &Call::probability;
  constexpr auto kRowSum = &Call::row_sum;
  static const std::vector<Refusal> list = {
      {kProbability, kInvalid, "logits", "missing", "", [](Call& c) { c.logits_view = {}; }},
      {kProbability, kInvalid, "targets", "[1]", "[2]", [](Call& c) { c.targets_view.shape[0] = 1; }},
      {kProbability, kInvalid, "vocab_size", "6", "1 to 5", [](Call& c) { c.options.vocab_size = 6; }},
      {kProbability, kInvalid, "temperature", "0", "[2^-64, 2^64]",
       [](Call& c) { c.options.temperature = 0; }},
      {kProbability, kInvalid, "targets", "id 4 at row 1", "[0, 3)",
       [](Call& c) {
         c.options.vocab_size = 3;
         c.options.on_invalid = OnInvalid::kRaise;
       }},
      {kProbability, kInvalid, "row_max", "missing", "forward pass", [](Call& c) { c.stats.row_max = {}; }},
      {kProbability, kType, "row_max", "float32", "float64",
       [](Call& c) { c.options.precision = Precision::kFloat64; }},
      {kProbability, kInvalid, "row_sum", "missing", "forward pass", [](Call& c) { c.stats.row_sum = {}; }},
      {kProbability, kInvalid, "row_sum", "[1]", "2 elements", [](Call& c) { c.stats.row_sum.shape[0] = 1; }},
      {kProbability, kInvalid, "probabilities", "missing", "", [](Call& c) { c.probabilities_view = {}; }},
      {kProbability, kType, "probabilities", "float16", "float32",
       [](Call& c) { c.probabilities_view.dtype = DType::kFloat16; }},
      {kProbability, kInvalid, "probabilities", "[2, 4]", "[2, 5]",
       [](Call& c) { c.probabilities_view.shape[1] = 4; }},
      {kProbability, kInvalid, "probabilities", "stride 2", "stride 1",
       [](Call& c) { c.probabilities_view.strides = {5, 2}; }},
      {kProbability, kInvalid, "probabilities", "elements coincide", "apart",
       [](Call& c) { c.probabilities_view.strides = {4, 1}; }},
      {kProbability, kInvalid, "probabilities", "shares memory with logits", "of its own",
       [](Call& c) { c.probabilities_view.data = c.logits; }},
      {kProbability, kInvalid, "workspace", "shares memory with probabilities", "of its own",
       [](Call& c) { c.context.workspace = std::as_writable_bytes(std::span(c.probabilities)); }},
      {kProbability, kInvalid, "backend", "'fast'", "'scalar'", [](Call& c) { c.context.backend = "fast"; }},
      {kRowSum, kInvalid, "values", "missing", "", [](Call& c) { c.logits_view = {}; }},
      {kRowSum, kType, "values", "bfloat16", "float32 or float64",
       [](Call& c) { c.logits_view.dtype = DType::kBFloat16; }},
      {kRowSum, kInvalid, "values", "no axis", "at least one", [](Call& c) { c.logits_view.rank = 0; }},
      {kRowSum, kInvalid, "values", "4194305 columns", "4194304",
       [](Call& c) { c.logits_view = {c.logits, DType::kFloat32, {0, 4194305}}; }},
      {kRowSum, kInvalid, "values", "stride 2", "stride 1", [](Call& c) { c.logits_view.strides[1] = 2; }},
      {kRowSum, kInvalid, "values", "null", "10 elements", [](Call& c) { c.logits_view.data = nullptr; }},
      {kRowSum, kInvalid, "sums", "missing", "", [](Call& c) { c.sums_view = {}; }},
      {kRowSum, kType, "sums", "float64", "float32", [](Call& c) { c.sums_view.dtype = DType::kFloat64; }},
      {kRowSum, kInvalid, "sums", "[1]", "[2, 5]", [](Call& c) { c.sums_view.shape[0] = 1; }},
      {kRowSum, kInvalid, "sums", "elements coincide", "apart", [](Call& c) { c.sums_view.strides[0] = 0; }},
      {kRowSum, kInvalid, "sums", "shares memory with values", "of its own",
       [](Call& c) { c.sums_view.data = c.logits + 3; }},
      {kRowSum, kInvalid, "workspace", "shares memory with sums", "of its own",
       [](Call& c) { c.context.workspace = std::as_writable_bytes(std::span(c.sums)); }},
      {kRowSum, kInvalid, "threads", "-1", "0", [](Call& c) { c.context.threads = -1; }},
  };
  return list;
}

TEST(RowOpsRefusal, names_the_argument_and_writes_nothing) {
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(std::string(refusal.argument) + ": " + refusal.was);
    Call call;
    refusal.spoil(call);
    try {
      (call.*refusal.call)();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), refusal.code) << error.what();
      EXPECT_EQ(error.argument(), refusal.argument) << error.what();
      EXPECT_NE(std::string(error.what()).find(refusal.was), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(refusal.may_be), std::string::npos) << error.what();
    }
    EXPECT_TRUE(call.outputs_are_untouched());
  }
}

TEST(RowOps, calls_that_are_not_spoiled_run) {
  Call call;
  call.probability();
  call.row_sum();
  for (const float p : call.probabilities) EXPECT_EQ(p, 0.2f);
  for (const float sum : call.sums) EXPECT_EQ(sum, 0.0f);
}

TEST(RowOps, empty_shapes_are_fine) {
  Call call;
  call.logits_view.shape[0] = call.targets_view.shape[0] = call.probabilities_view.shape[0] = 0;
  call.stats.row_max.shape[0] = call.stats.row_sum.shape[0] = call.sums_view.shape[0] = 0;
  call.probability();
  call.row_sum();
  EXPECT_TRUE(call.outputs_are_untouched());
}

// Beside the error of S (2e-6 relative in the worst rows, logp_accuracy tests) a probability carries that of e0 and
// four roundings: z - M (|z - M| * 2^-24, relative to p), 1 / S, S to fp32 and the product.
TEST(RowOps, probabilities_are_near_the_exact_ones) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Rng rng(11);
    LogpCase c = plain_case(4, 3000, dtype);
    for (std::int64_t i = 0; i < c.rows * c.vocab; ++i) set_element(c.logits, i, rng.normal() * 8);
    const Values p = twin(c).probabilities;
    const double scale = dtype == DType::kFloat64 ? 0x1p-29 : 1;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      std::vector<ref::Quad> z;
      for (std::int64_t i = 0; i < c.vocab; ++i) z.push_back(element_value(c.logits, row * c.vocab + i));
      const ref::OracleRow oracle(z, {});
      for (std::int64_t i = 0; i < c.vocab; ++i) {
        const double exact = double(oracle.p(i)), d = double(oracle.max() - z[static_cast<std::size_t>(i)]);
        const double relative = (2e-6 + 1.9e-7 + 1.4e-8 * d + (3 + d) * 0x1p-24) * scale;
        EXPECT_NEAR(element_value(p, row * c.vocab + i), exact, relative * exact) << "column " << i;
      }
    }
  }
}

}  // namespace
}  // namespace samebits::test
