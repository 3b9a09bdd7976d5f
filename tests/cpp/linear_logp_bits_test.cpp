// linear_logp = logp of the unfused product = the twin, whatever the backend, threads, chunks and layouts.
#include <gtest/gtest.h>

#include "logp_case.h"
#include "matmul_case.h"
#include "ref/matmul.h"
#include "run_case.h"

namespace samebits::test {
namespace {

// A LogpCase says rows, targets and options; hidden, weight and bias stand in for its logits.
struct Head {
  LogpCase logp;
  std::int64_t size = 0;        // H
  Values hidden, weight, bias;  // [rows, size], [columns, size], [columns] or empty
  Lay hidden_lay = Lay::kDense, weight_lay = Lay::kDense;
  std::string contract = "fma";
};

LogpResult fused(const Head& head, const std::string& backend, int threads) {
  const LogpCase& c = head.logp;
  const Matrix hidden(head.hidden, c.rows, head.size, head.hidden_lay);
  const Matrix weight(head.weight, c.columns, head.size, head.weight_lay);
  LogpOptions options = options_of(c);
  if (c.row_temperature.count() > 0)
    options.row_temperature = {c.row_temperature.bytes.data(), c.row_temperature.dtype, {c.rows}};
  if (c.selected)
    options.rows = {c.selected->data(), DType::kInt64, {static_cast<std::int64_t>(c.selected->size())}};
  const ConstTensorView targets(c.targets.data(), DType::kInt64, {c.rows});
  ConstTensorView bias;
  if (head.bias.count() > 0) bias = {head.bias.bytes.data(), head.bias.dtype, {c.columns}};

  LogpResult result(c);
  const auto view = [&](Values& values) {
    return TensorView(values.bytes.data(), values.dtype, {values.count()});
  };
  LogpOutputs outputs{view(result.logp),    view(result.lse),     view(result.entropy),
                      view(result.row_max), view(result.row_sum), view(result.row_entropy_sum)};
  ExecContext context;
  context.backend = backend;
  context.threads = threads;
  linear_logp_forward(hidden.view(), weight.view(), targets, bias, options, outputs, {head.contract},
                      context);
  return result;
}

// The public product, plus bias, through the public logp. What linear_logp does not give is left as it is.
LogpResult unfused(const Head& head, const std::string& backend) {
  LogpCase c = head.logp;
  const Matrix hidden(head.hidden, c.rows, head.size, head.hidden_lay);
  const Matrix weight(head.weight, c.columns, head.size, head.weight_lay);
  ConstTensorView bias;
  if (head.bias.count() > 0) bias = {head.bias.bytes.data(), head.bias.dtype, {c.columns}};
  c.logits = product(hidden.view(), weight.transposed(), c.real(), backend, 2, bias, head.contract);
  LogpResult result = run_case(c, twin(c), {}, [&] {
    ExecContext context;
    context.backend = backend;
    return context;
  }());
  const LogpResult blank(head.logp);
  result.grad = blank.grad;
  result.probabilities = blank.probabilities;
  return result;
}

Head plain_head(std::int64_t rows, std::int64_t vocab, std::int64_t size, DType dtype = DType::kFloat32) {
  Head head;
  head.logp = plain_case(rows, vocab, dtype);
  head.size = size;
  head.hidden = Values(dtype, rows * size);
  head.weight = Values(dtype, vocab * size);
  return head;
}

Head random_head(Rng& rng, std::int64_t rows, std::int64_t vocab, std::int64_t size, DType dtype) {
  Head head = plain_head(rows, vocab, size, dtype);
  head.hidden = normal_elements(rng, dtype, rows * size);
  head.weight = normal_elements(rng, dtype, vocab * size);
  for (std::int64_t& target : head.logp.targets) target = rng.below(vocab);
  return head;
}

class LinearLogp : public ::testing::TestWithParam<std::string> {};

TEST_P(LinearLogp, random_heads_equal_the_unfused_call) {
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const DType dtype =
        rng.pick({DType::kFloat32, DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16});
    const std::int64_t rows = rng.between(0, 20), vocab = rng.between(1, 700), size = rng.between(1, 90);
    Head head = random_head(rng, rows, vocab, size, dtype);
    if (dtype_size(dtype) == 2 && !rng.chance(4)) head.contract = "tc16";
    if (rng.chance(4)) head.weight = random_elements(rng, dtype, vocab * size);
    head.hidden_lay = kLays[rng.below(7)];
    head.weight_lay = kLays[rng.below(7)];
    LogpCase& c = head.logp;
    if (rng.chance(2)) {
      head.bias = normal_elements(rng, dtype, vocab);
      for (std::int64_t v = 0; v < vocab && rng.chance(2); ++v) set_element(head.bias, v, -INFINITY);
    }
    if (rng.chance(3)) c.vocab = rng.between(1, vocab);
    if (rng.chance(3)) c.temperature = 0.25 + rng.uniform();
    for (std::int64_t& target : c.targets)
      if (rng.chance(8)) target = rng.pick<std::int64_t>({-100, -1, vocab, (std::int64_t{1} << 32) + 1});
    if (rng.chance(3)) c.ignore_index = rng.below(vocab);
    c.on_invalid = rng.pick({OnInvalid::kZero, OnInvalid::kNan});
    if (rng.chance(3)) {
      c.selected.emplace();
      for (std::int64_t k = rng.below(2 * rows + 1); k > 0; --k)
        c.selected->push_back(rng.between(-2, rows + 1));
      c.keep_unselected = rng.chance(2);
    }
    if (rng.chance(4)) {
      c.row_temperature = Values(DType::kFloat32, rows);
      for (std::int64_t row = 0; row < rows; ++row) set_element(c.row_temperature, row, 0.5 + rng.uniform());
    }
    const LogpResult actual = fused(head, GetParam(), rng.pick({1, 2, 7}));
    ASSERT_TRUE(same_result(unfused(head, GetParam()), actual, Finite::kPerhapsNone));
  }
}

TEST_P(LinearLogp, every_vocab_size_and_thread_count_equals_the_unfused_call) {
  for (const std::int64_t vocab : {1, 2, 31, 33, 127, 128, 129, 383, 385, 1000, 32001}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " V = " + std::to_string(vocab));
      Rng rng(static_cast<std::uint64_t>(vocab));
      Head head = random_head(rng, vocab > 1000 ? 3 : 30, vocab, 24, dtype);
      if (dtype == DType::kBFloat16) head.contract = "tc16";
      const LogpResult expected = unfused(head, GetParam());
      for (const int threads : {1, 2, 7})
        ASSERT_TRUE(same_result(expected, fused(head, GetParam(), threads)));
    }
  }
}

// More rows than one chunk of block statistics holds, some of them taking no part.
TEST_P(LinearLogp, rows_in_chunks_equal_the_unfused_call) {
  Rng rng(5);
  Head head = random_head(rng, 9000, 130, 3, DType::kFloat32);
  for (std::int64_t row = 0; row < 9000; row += 7) head.logp.targets[row] = -100;
  ASSERT_TRUE(same_result(unfused(head, GetParam()), fused(head, GetParam(), 2)));
}

TEST_P(LinearLogp, the_twin_agrees) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    Rng rng(3);
    Head head = random_head(rng, 6, 300, 8200, dtype);
    if (dtype_size(dtype) == 2) head.contract = "tc16";
    const DType real = head.logp.real();
    LogpResult expected(head.logp);
    core::LinearLogpProblem problem;
    problem.logp.rows = 6;
    problem.logp.vocab = problem.logp.columns = 300;
    problem.tc16 = head.contract == "tc16";
    problem.logp.dtype = dtype;
    problem.logp.binary64 = dtype == DType::kFloat64;
    const std::int64_t shape[] = {6};
    const auto rows = [&]<class Void>(Void* data, DType type) {
      const BasicTensorView<Void> view(data, type, shape);
      return core::RowArray<Void>{data, type, core::RowIndex::of(view, 1)};
    };
    problem.logp.targets = rows(static_cast<const void*>(head.logp.targets.data()), DType::kInt64);
    problem.logp.logp = rows(static_cast<void*>(expected.logp.bytes.data()), real);
    problem.logp.lse = rows(static_cast<void*>(expected.lse.bytes.data()), real);
    problem.logp.entropy = rows(static_cast<void*>(expected.entropy.bytes.data()), real);
    problem.logp.row_max = expected.row_max.bytes.data();
    problem.logp.row_sum = expected.row_sum.bytes.data();
    problem.logp.row_entropy_sum = expected.row_entropy_sum.bytes.data();
    const Matrix hidden(head.hidden, 6, head.size), weight(head.weight, 300, head.size);
    problem.hidden_size = head.size;
    problem.hidden = {hidden.view().data, dtype, core::RowIndex::of(hidden.view(), 1)};
    problem.weight = {weight.view().data, head.size, 1};
    ref::linear_logp_forward(problem);
    ASSERT_TRUE(same_result(expected, fused(head, GetParam(), 2)));
  }
}

// field-failures A2, the mask in the bias.
TEST_P(LinearLogp, a2_one_finite_logit_gives_zero) {
  constexpr std::int64_t kVocab = 100000;
  for (const std::int64_t finite : {0, 1023, 1024, 50000, 99999}) {
    Head head = plain_head(2, kVocab, 4);
    head.bias = Values(DType::kFloat32, kVocab);
    for (std::int64_t v = 0; v < kVocab; ++v) set_element(head.bias, v, v == finite ? 10.0 : -INFINITY);
    head.logp.targets = {finite, finite == 0 ? 1 : 0};
    const LogpResult result = fused(head, GetParam(), 2);
    EXPECT_EQ(result.logp.as<float>()[0], 0.0f);
    EXPECT_EQ(result.lse.as<float>()[0], 10.0f);
    EXPECT_EQ(result.entropy.as<float>()[0], 0.0f);
    EXPECT_EQ(result.logp.as<float>()[1], -INFINITY);
  }
}

// field-failures A8: lanes beyond the vocabulary take no part.
TEST_P(LinearLogp, a8_equal_logits_give_minus_log_vocab) {
  for (const std::int64_t vocab : {1, 2, 31, 33, 127, 129, 1000, 32001, 50257, 129920, 151936}) {
    Head head = plain_head(1, vocab, 8);
    set_element(head.hidden, 0, -20);
    for (std::int64_t v = 0; v < vocab; ++v) set_element(head.weight, v * 8, 1);
    head.logp.targets = {vocab - 1};
    const double error =
        fused(head, GetParam(), 2).logp.as<float>()[0] + std::log(static_cast<double>(vocab));
    EXPECT_LE(std::abs(error), 2e-7 + 1e-6) << "V = " << vocab;
    if (vocab == 1) {
      EXPECT_EQ(error, 0);
    }
  }
}

// field-failures A20: logits 512 and 511 stay apart.
TEST_P(LinearLogp, a20_logits_are_not_rounded) {
  Head head = plain_head(2, 2, 512);
  for (std::int64_t i = 0; i < 2 * 512; ++i) {
    set_element(head.hidden, i, 1);
    set_element(head.weight, i, i == 700 ? 0 : 1);
  }
  head.logp.targets = {0, 1};
  const LogpResult result = fused(head, GetParam(), 2);
  EXPECT_NEAR(result.logp.as<float>()[0], -0.3132617, 1e-7);
  EXPECT_NEAR(result.logp.as<float>()[1], -1.3132617, 2e-7);
}

// field-failures A14, A15 and A16.
TEST_P(LinearLogp, a14_a16_rows_see_neither_the_batch_nor_the_threads) {
  Rng rng(14);
  const Head head = random_head(rng, 257, 444, 56, DType::kFloat32);
  const LogpResult all = fused(head, GetParam(), 2);
  for (const std::int64_t rows : {1, 2, 3, 7, 16, 17, 32, 33, 64, 65, 255, 256}) {
    Head part = head;
    std::vector<std::int64_t> picked;
    for (std::int64_t i = 0; i < rows; ++i) picked.push_back(256 - i * 256 / rows);
    part.logp = take_rows(head.logp, picked);
    part.hidden = take(head.hidden, head.size, picked);
    const Values expected = take(all.logp, 1, picked);
    for (const int threads : {1, 2, 6, 16})
      ASSERT_TRUE(same_bits(expected, fused(part, GetParam(), threads).logp)) << rows << " rows";
  }
}

// field-failures A5, as far as the head is concerned.
TEST_P(LinearLogp, a5_no_rows_is_fine) {
  const Head head = plain_head(0, 5, 3);
  EXPECT_EQ(fused(head, GetParam(), 2).logp.count(), 0);
}

INSTANTIATE_TEST_SUITE_P(backends, LinearLogp, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
