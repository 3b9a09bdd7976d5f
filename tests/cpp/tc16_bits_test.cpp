// tc16.v1: twin = every backend = every thread count = every layout, shape and split; and the faults these tests
// would catch.
#include <gtest/gtest.h>

#include "logp_case.h"
#include "matmul_case.h"
#include "order/number.h"
#include "ref/tc16.h"
#include "run_case.h"

namespace samebits::test {
namespace {

constexpr DType kOperands[] = {DType::kBFloat16, DType::kFloat16};

Values tc16_product(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                    const std::string& backend, int threads, const ConstTensorView& bias = {}) {
  return product(a, b, out_dtype, backend, threads, bias, "tc16");
}
Values tc16_twin(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                 const ConstTensorView& bias = {}) {
  return twin_product(a, b, out_dtype, bias, "tc16");
}

// Bit patterns at random: every exponent, subnormals, infinities and NaN alike.
Values random_patterns(Rng& rng, DType dtype, std::int64_t count) {
  Values values(dtype, count);
  const std::uint64_t mask = rng.pick<std::uint64_t>({0xffff, 0xbfff, 0x8fff, 0x80ff, 0xdfff});
  for (std::int64_t i = 0; i < count; ++i)
    values.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(rng.bits() & mask);
  return values;
}
Values random_operand(Rng& rng, DType dtype, std::int64_t count) {
  return rng.chance(3) ? random_patterns(rng, dtype, count) : random_elements(rng, dtype, count);
}

class Tc16Bits : public ::testing::TestWithParam<std::string> {};

TEST_P(Tc16Bits, random_products_equal_the_twin) {
  constexpr int kCases = 10000;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const DType dtype = rng.pick({kOperands[0], kOperands[1]});
    const DType out_dtype = rng.chance(2) ? DType::kFloat32 : dtype;
    const std::int64_t rows = rng.between(0, 11), columns = rng.between(0, 70), depth = rng.between(0, 100);
    const Matrix a(random_operand(rng, dtype, rows * depth), rows, depth, kLays[rng.below(7)]);
    const bool from_rows = rng.chance(2);  // B seen as the transpose of rows, as a weight is
    const Matrix b(random_operand(rng, dtype, depth * columns), from_rows ? columns : depth,
                   from_rows ? depth : columns, kLays[rng.below(7)]);
    const ConstTensorView b_view = from_rows ? b.transposed() : b.view();
    const Matrix bias_row(random_elements(rng, dtype, columns), 1, columns, kLays[rng.below(7)]);
    ConstTensorView bias;
    if (rng.chance(2))
      bias = ConstTensorView(bias_row.view().data, dtype, {columns}, {bias_row.view().strides[1]});
    const Values expected = tc16_twin(a.view(), b_view, out_dtype, bias);
    ASSERT_TRUE(same_bits(expected,
                          tc16_product(a.view(), b_view, out_dtype, GetParam(), rng.pick({1, 2, 7}), bias),
                          Finite::kPerhapsNone))
        << rows << " x " << depth << " x " << columns;
    if (HasFailure()) return;
  }
}

// Ends of groups, chunks and segments.
TEST_P(Tc16Bits, every_depth_and_thread_count_equals_the_twin) {
  for (const std::int64_t depth :
       {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 127, 128, 129, 143, 255, 257, 8191, 8192, 8193, 8208, 20000}) {
    for (const DType dtype : kOperands) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " K = " + std::to_string(depth));
      Rng rng(static_cast<std::uint64_t>(depth) * 8 + static_cast<std::uint64_t>(dtype));
      const Matrix a(normal_elements(rng, dtype, 5 * depth), 5, depth);
      const Matrix b(normal_elements(rng, dtype, 37 * depth), 37, depth);
      const Values expected = tc16_twin(a.view(), b.transposed(), DType::kFloat32);
      for (const int threads : {1, 2, 7})
        ASSERT_TRUE(same_bits(expected,
                              tc16_product(a.view(), b.transposed(), DType::kFloat32, GetParam(), threads)));
    }
  }
}

// Rows and columns that fill, miss and pass register tiles, panels and cache tiles.
TEST_P(Tc16Bits, every_tile_edge_equals_the_twin) {
  Rng rng(7);
  constexpr std::int64_t kMostRows = 389, kMostColumns = 420, kDepth = 19;
  const DType dtype = DType::kBFloat16;
  const Matrix a(normal_elements(rng, dtype, kMostRows * kDepth), kMostRows, kDepth);
  const Matrix b(normal_elements(rng, dtype, kMostColumns * kDepth), kMostColumns, kDepth);
  const Values all = tc16_twin(a.view(), b.transposed(), DType::kFloat32);
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 24, 25, 383, 384, 385, 389}) {
    for (const std::int64_t columns : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 383, 385, 420}) {
      ConstTensorView left = a.view(), right = b.transposed();
      left.shape[0] = rows;
      right.shape[1] = columns;
      Values expected(DType::kFloat32, rows * columns);
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(all.as<float>() + i * kMostColumns, columns, expected.as<float>() + i * columns);
      ASSERT_TRUE(same_bits(expected, tc16_product(left, right, DType::kFloat32, GetParam(), 2)))
          << rows << " x " << columns;
    }
  }
}

// field-failures A14, and A15 for the head's logits: no row may see the batch, its place in it, or the others.
TEST_P(Tc16Bits, a14_a15_row_zero_does_not_see_the_batch) {
  row_zero_does_not_see_the_batch(DType::kBFloat16, GetParam(), "tc16");
}

TEST_P(Tc16Bits, zeros_nan_and_overflow) {
  const auto dot = [&](std::initializer_list<double> a, std::initializer_list<double> b, DType dtype) {
    const auto depth = static_cast<std::int64_t>(a.size());
    Values left(dtype, depth), right(dtype, depth);
    std::int64_t i = 0;
    for (const double value : a) set_element(left, i++, value);
    i = 0;
    for (const double value : b) set_element(right, i++, value);
    const Matrix x(left, 1, depth), y(right, depth, 1);
    return *tc16_product(x.view(), y.view(), DType::kFloat32, GetParam(), 1).as<std::uint32_t>();
  };
  constexpr DType kBf16 = DType::kBFloat16, kFp16 = DType::kFloat16;
  for (const DType dtype : kOperands) {
    EXPECT_EQ(dot({-0.0, 1}, {1, -0.0}, dtype), 0u);
    EXPECT_EQ(dot({-1, 1}, {1, 1}, dtype), 0u);
    EXPECT_EQ(dot({INFINITY}, {0}, dtype), 0x7fffffffu);
    EXPECT_EQ(dot({INFINITY, INFINITY}, {1, -1}, dtype), 0x7fffffffu);
    EXPECT_EQ(dot({NAN, 1}, {0, 3}, dtype), 0x7fffffffu);
    EXPECT_EQ(dot({-INFINITY, 1}, {2, 3}, dtype), 0xff800000u);
  }
  EXPECT_EQ(dot({0x1p100, 0x1p100}, {0x1p100, -0x1p99}, kBf16), 0x7f800000u) << "overflows in one step";
  EXPECT_EQ(dot({0x1p127, 0x1p127}, {1, 1}, kBf16), 0x7f800000u);
  EXPECT_EQ(dot({0x1p100, 0x1p100}, {0x1p100, -0x1p100}, kBf16), 0u) << "products are not rounded";
  EXPECT_EQ(dot({-0x1p-70}, {0x1p-80}, kBf16), 0u) << "below 2^-149 is +0, not -0";
  EXPECT_EQ(dot({0x1p-70}, {0x1p-79}, kBf16), 1u);
  EXPECT_EQ(dot({0x1p-24}, {0x1p-24}, kFp16), 0x27800000u) << "the smallest fp16 squared: 2^-48";
}

// The planted faults: each gives other bits on the cases used above.
float faulty_dot(const std::vector<ref::Tc16Number>& a, const std::vector<ref::Tc16Number>& b,
                 std::int64_t segment, std::int64_t used, bool bf16_accumulator) {
  float total = 0;
  const auto depth = static_cast<std::int64_t>(a.size());
  for (std::int64_t begin = 0; begin < std::min(depth, used); begin += segment) {
    float acc = 0;
    for (std::int64_t k = begin; k < std::min(begin + segment, depth); k += 16) {
      acc = ref::tc16_step(acc, &a[static_cast<std::size_t>(k)], &b[static_cast<std::size_t>(k)]);
      if (bf16_accumulator) acc = order::to_float(order::round_to<order::BFloat16>(acc));
    }
    total += acc;
  }
  return total;
}

TEST(Tc16Faults, a_dropped_segment_an_ignored_limit_and_a_narrow_accumulator_change_bits) {
  constexpr std::int64_t kDepth = 20000;
  Rng rng(5);
  const Values left = normal_elements(rng, DType::kBFloat16, kDepth);
  const Values right = normal_elements(rng, DType::kBFloat16, kDepth);
  std::vector<ref::Tc16Number> a, b;
  for (std::int64_t k = 0; k < kDepth; ++k) {
    a.push_back(ref::tc16_number(DType::kBFloat16, left.as<std::uint16_t>()[k]));
    b.push_back(ref::tc16_number(DType::kBFloat16, right.as<std::uint16_t>()[k]));
  }
  const float expected = ref::dot_tc16(a.data(), 1, b.data(), 1, kDepth);
  EXPECT_EQ(faulty_dot(a, b, 8192, kDepth, false), expected);
  EXPECT_NE(faulty_dot(a, b, 8192, 16384, false), expected) << "the last segment dropped";
  EXPECT_NE(faulty_dot(a, b, kDepth, kDepth, false), expected) << "one chain for all of K";
  EXPECT_NE(faulty_dot(a, b, 4096, kDepth, false), expected) << "shorter segments";
  EXPECT_NE(faulty_dot(a, b, 8192, kDepth, true), expected) << "a bf16 accumulator";
}

TEST_P(Tc16Bits, every_layout_gives_the_dense_bits) {
  for (const DType dtype : kOperands) {
    Rng rng(static_cast<std::uint64_t>(dtype));
    constexpr std::int64_t kRows = 29, kDepth = 517, kColumns = 95;
    const Values left = normal_elements(rng, dtype, kRows * kDepth);
    const Values right = normal_elements(rng, dtype, kDepth * kColumns);
    for (const Lay a_lay : kLays) {
      for (const Lay b_lay : kLays) {
        const Matrix a(left, kRows, kDepth, a_lay), b(right, kDepth, kColumns, b_lay);
        const Matrix a_dense(a.dense(), kRows, kDepth), b_dense(b.dense(), kDepth, kColumns);
        const Values expected = tc16_product(a_dense.view(), b_dense.view(), DType::kFloat32, GetParam(), 1);
        ASSERT_TRUE(same_bits(expected, tc16_product(a.view(), b.view(), DType::kFloat32, GetParam(), 2)))
            << "layouts " << static_cast<int>(a_lay) << " and " << static_cast<int>(b_lay);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(backends, Tc16Bits, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
