// Twin = every backend = every thread count = every layout, batch split and permutation.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "random_case.h"

namespace samebits::test {
namespace {

class LogpBits : public BackendTest {};

TEST_P(LogpBits, random_calls_equal_the_twin) {
  constexpr int kCases = 24000;
  std::int64_t rows = 0;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const LogpCase c = random_case(rng);
    const LogpResult expected = twin(c);
    const Layout layout = random_layout(rng, c);
    const LogpResult actual = run_case(c, expected, layout, context(rng.pick({1, 2, 7})));
    ASSERT_TRUE(same_result(expected_of(c, expected, layout), actual, Finite::kPerhapsNone));
    if (HasFailure()) return;
    rows += c.rows;
  }
  RecordProperty("cases", kCases);
  RecordProperty("rows", static_cast<int>(rows));
}

// Every vocabulary size of the field, every dtype, every thread count.
TEST_P(LogpBits, every_vocab_size_and_thread_count_equals_the_twin) {
  for (const std::int64_t vocab : {1, 2, 31, 33, 127, 128, 129, 1000, 32001, 50257, 131072, 151936, 262144}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " V = " + std::to_string(vocab));
      Rng rng(static_cast<std::uint64_t>(vocab) * 8 + static_cast<std::uint64_t>(dtype));
      LogpCase c = plain_case(vocab > 1000 ? 2 : 7, vocab, dtype);
      for (std::int64_t i = 0; i < c.rows * vocab; ++i) set_element(c.logits, i, rng.normal() * 6);
      for (std::int64_t& target : c.targets) target = rng.below(vocab);
      c.targets.back() = vocab - 1;
      for (Values* upstream : {&c.grad_logp, &c.grad_lse, &c.grad_entropy}) {
        *upstream = Values(c.real(), c.rows);
        for (std::int64_t row = 0; row < c.rows; ++row) set_element(*upstream, row, rng.normal());
      }
      const LogpResult expected = twin(c);
      for (const int threads : {1, 2, 7})
        ASSERT_TRUE(same_result(expected, run_case(c, expected, {}, context(threads))))
            << threads << " threads";
    }
  }
}

// A NaN of either sign at every column of a row of like logits, and such a row without one. One
// of the temperatures makes large logits overflow.
TEST_P(LogpBits, a_nan_is_found_wherever_it_is) {
  constexpr std::int64_t kVocab = 131;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const double filling : {-3.0, 2.0, -0.0, -60000.0, -3e38, -kInfinity, kInfinity})
      for (const double temperature : {1.0, 0.7, 0x1p-64}) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(filling) + " / " +
                     std::to_string(temperature));
        LogpCase c = plain_case(2 * kVocab + 1, kVocab, dtype);
        c.temperature = temperature;
        for (std::int64_t i = 0; i < c.rows * kVocab; ++i) set_element(c.logits, i, filling);
        const std::uint16_t nan = dtype == DType::kBFloat16 ? 0x7f81 : 0x7c01;
        for (std::int64_t column = 0; column < kVocab; ++column) {
          c.logits.as<std::uint16_t>()[2 * column * kVocab + column] = nan;
          c.logits.as<std::uint16_t>()[(2 * column + 1) * kVocab + column] = nan | 0x8000;
        }
        const LogpResult expected = twin(c);
        ASSERT_TRUE(same_result(expected, run_case(c, expected, {}, context(1)), Finite::kPerhapsNone));
      }
}

TEST_P(LogpBits, rows_do_not_see_each_other) {
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(0xb17000u + static_cast<std::uint64_t>(i));
    LogpCase c = random_case(rng);
    const LogpResult whole = twin(c);
    std::vector<std::int64_t> order(static_cast<std::size_t>(c.rows));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(k)))]);
    // The shuffled batch, cut in pieces of random length.
    for (std::size_t begin = 0; begin < order.size();) {
      const std::size_t end = std::min(order.size(), begin + static_cast<std::size_t>(rng.between(1, 4)));
      const std::vector<std::int64_t> picked(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                             order.begin() + static_cast<std::ptrdiff_t>(end));
      const LogpCase part = take_rows(c, picked);
      LogpResult expected(part);
      expected.logp = take(whole.logp, 1, picked);
      expected.lse = take(whole.lse, 1, picked);
      expected.entropy = take(whole.entropy, 1, picked);
      expected.row_max = take(whole.row_max, 1, picked);
      expected.row_sum = take(whole.row_sum, c.binary64() ? 2 : 1, picked);
      expected.row_entropy_sum = take(whole.row_entropy_sum, c.binary64() ? 2 : 1, picked);
      expected.grad = take(whole.grad, c.columns, picked);
      expected.probabilities = take(whole.probabilities, c.columns, picked);
      const LogpResult actual = run_case(part, expected, {}, context(rng.pick({1, 2, 7})));
      ASSERT_TRUE(same_result(expected, actual, Finite::kPerhapsNone));
      begin = end;
    }
  }
}

TEST_P(LogpBits, repeated_calls_give_the_same_bits) {
  Rng rng(7);
  LogpCase c = plain_case(3, 50257, DType::kBFloat16);
  for (std::int64_t i = 0; i < c.rows * c.vocab; ++i) set_element(c.logits, i, rng.normal() * 3);
  c.grad_logp = Values(DType::kFloat32, 3);
  set_element(c.grad_logp, 1, 1);
  const LogpResult expected = twin(c);
  for (int repeat = 0; repeat < 10; ++repeat)
    ASSERT_TRUE(same_result(expected, run_case(c, expected, {}, context(2))));
}

INSTANTIATE_TEST_SUITE_P(backend, LogpBits, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
