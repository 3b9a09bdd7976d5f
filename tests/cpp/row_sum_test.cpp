// row_sum: twin = every backend = every thread count = every layout and split; its accuracy.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "random_case.h"
#include "ref/oracle.h"
#include "row_sum_case.h"

namespace samebits::test {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64};

class RowSum : public BackendTest {};

TEST_P(RowSum, random_calls_equal_the_twin) {
  for (int i = 0; i < 6000; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const std::int64_t rows = rng.between(0, 8);
    const std::int64_t columns = rng.chance(10) ? rng.between(0, 20000) : rng.between(0, 700);
    Values values(kDTypes[rng.below(2)], rows * columns);
    const bool same_rows = rng.chance(6);
    for (std::int64_t row = 0; row < rows && columns > 0; ++row) {
      const std::int64_t bytes = columns * dtype_size(values.dtype);
      if (row > 0 && same_rows)
        std::memcpy(values.bytes.data() + row * bytes, values.bytes.data(), static_cast<std::size_t>(bytes));
      else
        random_logits(rng, values, row * columns, columns);
    }
    RowSumLayout layout;
    if (rows == 6) layout.leading = {2, 3};
    if (rows == 8) layout.leading = {2, 2, 2};
    if (rng.chance(2)) layout.values.gap = rng.pick<std::int64_t>({1, 5, 64});
    layout.values.reversed = rng.chance(3);
    layout.values.offset = rng.chance(2) ? rng.between(0, 17) : 0;
    layout.values.expanded = same_rows;
    layout.sums.gap = rng.below(3);
    layout.sums.reversed = rng.chance(3);
    layout.with_workspace = rng.chance(2);
    const Values actual = row_sum_call(values, rows, layout, context(rng.pick({1, 2, 7})));
    ASSERT_TRUE(same_bits(row_sum_twin(values, rows), actual, Finite::kPerhapsNone));
  }
}

TEST_P(RowSum, few_long_rows_are_split_over_threads_without_a_trace) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t columns : {4095, 4096, 4097, 131072, 151936, 1 << 20, (1 << 22) - 1, 1 << 22}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " n = " + std::to_string(columns));
      const std::int64_t rows = columns > 200000 ? 1 : 3;
      Rng rng(static_cast<std::uint64_t>(columns));
      Values values(dtype, rows * columns);
      for (std::int64_t i = 0; i < rows * columns; ++i)
        set_element(values, i, static_cast<double>(static_cast<std::int64_t>(rng.bits())) * 0x1p-60);
      const Values expected = row_sum_twin(values, rows);
      for (const int threads : {1, 2, 3, 7, 64})
        ASSERT_TRUE(same_bits(expected, row_sum_call(values, rows, {}, context(threads))))
            << threads << " threads";
    }
}

TEST_P(RowSum, zeros_are_positive_and_nan_is_the_canonical_one) {
  for (const DType dtype : kDTypes) {
    Values values(dtype, 4 * 300);
    for (std::int64_t i = 0; i < 300; ++i) set_element(values, i, -0.0);
    set_element(values, 300 + 299, -std::nan("5"));
    set_element(values, 600 + 3, INFINITY);
    set_element(values, 600 + 290, -INFINITY);
    set_element(values, 900 + 290, -INFINITY);
    const Values sums = row_sum_call(values, 4, {}, context(1));
    const bool wide = dtype == DType::kFloat64;
    EXPECT_EQ(element_text(sums, 0), wide ? "0x0p+0 (0000000000000000)" : "0x0p+0 (00000000)");
    EXPECT_TRUE(same_bits(row_sum_twin(values, 4), sums, Finite::kPerhapsNone));
    for (const std::int64_t row : {1, 2}) {
      const auto* bits32 = sums.as<std::uint32_t>();
      const auto* bits64 = sums.as<std::uint64_t>();
      EXPECT_EQ(wide ? bits64[row] : bits32[row], wide ? 0x7ff8000000000000u : 0x7fffffffu);
    }
    EXPECT_EQ(element_value(sums, 3), -INFINITY);
  }
}

// Each value passes at most 3 additions in its lane (the first, to +0, is exact), 5 to combine the lanes, and one a
// level of the tree: 15 at most. Each is off by at most half an ulp of what it adds up.
TEST_P(RowSum, the_error_is_that_of_as_many_roundings_as_the_tree_is_deep) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t columns : {100, 5000, 131072, 1 << 20}) {
      Rng rng(static_cast<std::uint64_t>(columns) + 1);
      Values values(dtype, columns);
      ref::Quad exact = 0, magnitude = 0;
      for (std::int64_t i = 0; i < columns; ++i) {
        set_element(values, i, rng.normal());
        exact += element_value(values, i);
        magnitude += std::abs(element_value(values, i));
      }
      const double sum = element_value(row_sum_call(values, 1, {}, context(2)), 0);
      const double levels = std::ceil(std::log2(static_cast<double>((columns + 127) / 128)));
      const double unit = dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
      EXPECT_LE(std::abs(double(ref::Quad(sum) - exact)), (3 + 5 + levels) * unit * double(magnitude));
    }
}

INSTANTIATE_TEST_SUITE_P(backend, RowSum, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
