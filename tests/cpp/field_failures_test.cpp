// What broke other libraries, as far as it concerns logp: the case numbers are those of the list of field failures.
#include <gtest/gtest.h>

#include <cmath>

#include "random_case.h"

namespace samebits::test {
namespace {

class FieldFailures : public BackendTest {
 protected:
  // Runs in plain layout and holds the twin's bits.
  LogpResult run(const LogpCase& c, const Layout& layout = {}) const {
    const LogpResult expected = twin(c);
    const LogpResult actual = run_case(c, expected, layout, context());
    EXPECT_TRUE(same_result(expected, actual, Finite::kPerhapsNone));
    return actual;
  }
};

Values ones(DType dtype, std::int64_t count) {
  Values values(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) set_element(values, i, 1);
  return values;
}

LogpCase normal_case(std::int64_t rows, std::int64_t vocab, DType dtype, std::uint64_t seed) {
  Rng rng(seed);
  LogpCase c = plain_case(rows, vocab, dtype);
  for (std::int64_t i = 0; i < rows * vocab; ++i) set_element(c.logits, i, rng.normal() * 3);
  for (std::int64_t& target : c.targets) target = rng.below(vocab);
  c.grad_logp = ones(c.real(), rows);
  return c;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_P(FieldFailures, a2_a_vocabulary_masked_but_for_one_column) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::int64_t finite : {0, 1023, 1024, 50000, 99999}) {
      LogpCase c = plain_case(1, 100000, dtype);
      for (std::int64_t i = 0; i < c.vocab; ++i) set_element(c.logits, i, i == finite ? 10.0 : -kInfinity);
      c.targets[0] = finite;
      c.grad_logp = ones(DType::kFloat32, 1);
      const LogpResult result = run(c);
      EXPECT_TRUE(same_bits(Values(DType::kFloat32, 1), result.logp)) << "logp must be exactly 0";
      for (std::int64_t i = 0; i < c.vocab; ++i)
        ASSERT_EQ(element_value(result.grad, i), 0) << "column " << i;
    }
  }
}

TEST_P(FieldFailures, a3_negative_and_out_of_range_targets) {
  for (const std::int64_t ignored : {-100, -1, 0}) {
    LogpCase c = normal_case(5, 8, DType::kFloat32, 3);
    c.targets = {3, -100, -1, 8, (std::int64_t{1} << 32) + 3};
    c.ignore_index = ignored;
    const LogpResult zero = run(c);
    c.on_invalid = OnInvalid::kNan;
    const LogpResult nan = run(c);
    for (std::int64_t row = 1; row < 5; ++row) {
      EXPECT_EQ(element_value(zero.logp, row), 0) << "row " << row;
      EXPECT_EQ(element_value(zero.lse, row), -kInfinity) << "row " << row;
      EXPECT_EQ(element_value(zero.entropy, row), 0) << "row " << row;
      const bool is_ignored = c.targets[static_cast<std::size_t>(row)] == ignored;
      EXPECT_EQ(std::isnan(element_value(nan.logp, row)), !is_ignored) << "row " << row;
      for (std::int64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(element_text(zero.grad, row * 8 + i), "0x0p+0 (00000000)");
        EXPECT_EQ(element_text(nan.grad, row * 8 + i), "0x0p+0 (00000000)");
      }
    }
    const LogpCase alone = take_rows(c, {0});
    EXPECT_TRUE(same_bits(run(alone).logp, take(zero.logp, 1, {0})));
  }
}

TEST_P(FieldFailures, a4_a_batch_of_ignored_rows_has_a_gradient_of_zeros) {
  LogpCase c = normal_case(4, 16, DType::kFloat32, 4);
  c.targets.assign(4, -100);
  const LogpResult result = run(c);
  EXPECT_TRUE(same_bits(Values(DType::kFloat32, 4), result.logp));
  EXPECT_TRUE(same_bits(Values(DType::kFloat32, 64), result.grad));
}

TEST_P(FieldFailures, a5_empty_batches) {
  const LogpCase none = plain_case(0, 10);
  Layout layout;
  run(none, layout);
  layout.leading = {2, 0};
  run(none, layout);
  // An empty row list: every row takes the zero form.
  LogpCase c = normal_case(3, 10, DType::kFloat32, 5);
  c.selected.emplace();
  EXPECT_TRUE(same_bits(Values(DType::kFloat32, 3), run(c).logp));
}

TEST_P(FieldFailures, a6_target_dtype_and_stride) {
  const LogpCase c = normal_case(16, 1000, DType::kFloat32, 6);
  LogpCase equal = c;
  equal.targets.assign(16, 77);
  for (const bool narrow : {false, true}) {
    Layout layout;
    layout.narrow_ids = narrow;
    for (const std::int64_t gap : {0, 1, 5}) {
      for (const bool reversed : {false, true}) {
        layout.per_row = {{}, gap, reversed, false, 1};
        run(c, layout);
      }
    }
    layout.per_row = {};
    layout.per_row.expanded = true;
    run(equal, layout);
  }
}

TEST_P(FieldFailures, a7_logits_that_are_not_contiguous) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    const LogpCase c = normal_case(8, 200, dtype, 7);
    Layout layout;
    layout.leading = {2, 4};
    layout.logits.order = layout.grad.order = {1, 0};  // a transposed leading shape
    run(c, layout);
    layout = {};
    layout.logits.gap = layout.grad.gap = 64;  // columns of a wider matrix
    run(c, layout);
    layout.logits.reversed = layout.grad.reversed = true;
    layout.logits.offset = layout.grad.offset = 1;  // aligned to one element only
    run(c, layout);
    layout = {};
    layout.logits.expanded = true;  // one row for all
    const std::vector<std::int64_t> same_row(8, 0);
    run(take_rows(c, same_row), layout);
  }
}

TEST_P(FieldFailures, a9_inputs_keep_their_bits_and_backward_can_run_twice) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const LogpCase c = normal_case(7, 11, dtype, 9);  // run_case checks that no input was written
    EXPECT_TRUE(same_bits(run(c).grad, run(c).grad));
  }
}

TEST_P(FieldFailures, a16_the_number_of_threads_changes_nothing) {
  for (const auto& [rows, vocab] : {std::pair<std::int64_t, std::int64_t>{1, 444}, {5, 70000}, {1, 262144}}) {
    const LogpCase c = normal_case(rows, vocab, DType::kFloat32, 16);
    const LogpResult expected = twin(c);
    for (const int threads : {1, 2, 6, 16})
      EXPECT_TRUE(same_result(expected, run_case(c, expected, {}, context(threads))))
          << threads << " threads";
  }
}

TEST_P(FieldFailures, a17_temperature_divides_the_logits_before_they_are_normalised) {
  LogpCase c = plain_case(1, 3);
  for (int i = 0; i < 3; ++i) set_element(c.logits, i, 2 - i);
  c.grad_logp = ones(DType::kFloat32, 1);
  EXPECT_NEAR(element_value(run(c).logp, 0), -0.4076060, 1e-7);
  c.temperature = 0.5;
  const LogpResult half = run(c);
  EXPECT_NEAR(element_value(half.logp, 0), -0.1429316, 1e-7);
  EXPECT_NEAR(element_value(half.grad, 0), 0.2663733, 2e-6);  // 1e-6 for a unit upstream, times 1 / T
  c.temperature = 0.6;
  EXPECT_NEAR(element_value(run(c).logp, 0), -0.2025731, 1e-7);

  // A temperature per row equals the scalar call row by row.
  LogpCase rows = normal_case(4, 300, DType::kBFloat16, 17);
  rows.row_temperature = Values(DType::kFloat64, 4);
  const double taus[] = {0.5, 1.0, 0.6, 1.7};
  for (std::int64_t row = 0; row < 4; ++row) set_element(rows.row_temperature, row, taus[row]);
  const LogpResult all = run(rows);
  for (std::int64_t row = 0; row < 4; ++row) {
    LogpCase one = take_rows(rows, {row});
    one.row_temperature = {};
    one.temperature = taus[row];
    const LogpResult alone = run(one);
    EXPECT_TRUE(same_bits(take(all.logp, 1, {row}), alone.logp));
    EXPECT_TRUE(same_bits(take(all.grad, 300, {row}), alone.grad));
  }
}

TEST_P(FieldFailures, a18_temperatures_that_are_not_allowed_are_refused) {
  for (const double tau : {0.0, -1.0, std::nan(""), kInfinity, 0x1p-65, 0x1p65}) {
    for (const bool per_row : {false, true}) {
      LogpCase c = plain_case(2, 5);
      if (per_row) {
        c.row_temperature = ones(DType::kFloat64, 2);
        set_element(c.row_temperature, 1, tau);
      } else {
        c.temperature = tau;
      }
      try {
        run_case(c, LogpResult(c), {}, context());
        ADD_FAILURE() << "temperature " << tau << " was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_EQ(error.argument(), "temperature");
      }
    }
  }
}

TEST_P(FieldFailures, a19_outputs_of_16_bit_logits_are_fp32) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const LogpResult result = run(plain_case(1, 131072, dtype));
    ASSERT_EQ(result.logp.dtype, DType::kFloat32);
    EXPECT_NEAR(element_value(result.logp, 0), -11.7835021, 5e-7);
  }
}

TEST_P(FieldFailures, a35_no_logp_is_above_zero) {
  std::int64_t rows = 0;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const double scale : {1.0, 30.0, 300.0, 0.0}) {
      Rng rng(static_cast<std::uint64_t>(scale) + 35);
      LogpCase c = plain_case(10000, 24, dtype);
      for (std::int64_t i = 0; i < c.rows * c.vocab; ++i) set_element(c.logits, i, scale * rng.normal());
      for (std::int64_t row = 0; row < c.rows; ++row) {
        c.targets[static_cast<std::size_t>(row)] = rng.below(c.vocab);
        if (scale == 0)  // one logit far above the rest
          set_element(c.logits, row * c.vocab + c.targets[static_cast<std::size_t>(row)], 100 + rng.normal());
      }
      const LogpResult result = run(c);
      for (std::int64_t row = 0; row < c.rows; ++row)
        ASSERT_LE(element_value(result.logp, row), 0) << "row " << row;
      rows += c.rows;
    }
  }
  EXPECT_GE(rows, 100000);
}

INSTANTIATE_TEST_SUITE_P(backend, FieldFailures, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
