// fma.v1 at its edges: nothing to add, signed zeros, NaN patterns, one rounding, subnormals, golden vectors.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "logp_case.h"
#include "matmul_case.h"
#include "order/fp_env.h"
#include "order/number.h"
#include "run_case.h"

namespace samebits::test {
namespace {

class MatmulEdges : public ::testing::TestWithParam<std::string> {
 protected:
  // a and b have one row and one column.
  Values dot(std::initializer_list<double> a, std::initializer_list<double> b,
             DType dtype = DType::kFloat32) const {
    const auto depth = static_cast<std::int64_t>(a.size());
    Values left(dtype, depth), right(dtype, depth);
    std::int64_t i = 0;
    for (const double value : a) set_element(left, i++, value);
    i = 0;
    for (const double value : b) set_element(right, i++, value);
    const Matrix x(left, 1, depth), y(right, depth, 1);
    return product(x.view(), y.view(), dtype, GetParam(), 1);
  }
};

// field-failures A5.
TEST_P(MatmulEdges, a5_empty_products_are_fine_and_no_depth_gives_plus_zero) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const Matrix none(Values(dtype, 0), 0, 7), b(Values(dtype, 21), 7, 3);
    EXPECT_EQ(product(none.view(), b.view(), dtype, GetParam(), 2).count(), 0);
    const Matrix no_columns(Values(dtype, 0), 7, 0), a(Values(dtype, 14), 2, 7);
    EXPECT_EQ(product(a.view(), no_columns.view(), dtype, GetParam(), 2).count(), 0);
    const Matrix thin(Values(dtype, 0), 5, 0), flat(Values(dtype, 0), 0, 9);
    EXPECT_TRUE(same_bits(Values(dtype, 45), product(thin.view(), flat.view(), dtype, GetParam(), 2)));
  }
}

TEST_P(MatmulEdges, a_zero_result_is_plus_zero) {
  EXPECT_EQ(order::bits_to<std::uint32_t>(*dot({-0.0}, {1}).as<float>()), 0u);
  EXPECT_EQ(order::bits_to<std::uint32_t>(*dot({-1}, {0.0}).as<float>()), 0u);
  EXPECT_EQ(order::bits_to<std::uint32_t>(*dot({-0x1p-149}, {0x1p-149}).as<float>()), 0u);
  EXPECT_EQ(order::bits_to<std::uint64_t>(*dot({-0.0}, {1}, DType::kFloat64).as<double>()), 0u);
}

TEST_P(MatmulEdges, every_nan_is_the_canonical_one) {
  EXPECT_EQ(order::bits_to<std::uint32_t>(*dot({INFINITY}, {0}).as<float>()), 0x7fffffffu);
  EXPECT_EQ(order::bits_to<std::uint32_t>(*dot({INFINITY, -INFINITY}, {1, 1}).as<float>()), 0x7fffffffu);
  EXPECT_EQ(order::bits_to<std::uint32_t>(*dot({NAN, 1}, {2, 3}).as<float>()), 0x7fffffffu);
  EXPECT_EQ(order::bits_to<std::uint64_t>(*dot({NAN}, {1}, DType::kFloat64).as<double>()),
            0x7ff8000000000000ull);
  EXPECT_EQ(*dot({NAN}, {1}, DType::kBFloat16).as<std::uint16_t>(), 0x7fffu);
  EXPECT_EQ(*dot({NAN}, {1}, DType::kFloat16).as<std::uint16_t>(), 0x7fffu);
  EXPECT_EQ(*dot({INFINITY}, {2}).as<float>(), INFINITY);
}

// (1 + 2^-12)^2 - 1 keeps its last bit only where product and sum round once.
TEST_P(MatmulEdges, product_and_sum_round_once) {
  EXPECT_EQ(*dot({-1, 1 + 0x1p-12}, {1, 1 + 0x1p-12}).as<float>(), 0x1p-11f + 0x1p-24f);
  EXPECT_EQ(*dot({-1, 1 + 0x1p-30}, {1, 1 + 0x1p-30}, DType::kFloat64).as<double>(), 0x1p-29 + 0x1p-60);
}

TEST_P(MatmulEdges, sixteen_bit_results_round_once) {
  // 256 + 1 lies half way between two bfloat16; 2^-20 more decides, and only the fp32 sum knows of it.
  EXPECT_EQ(*dot({256, 1}, {1, 1}, DType::kBFloat16).as<std::uint16_t>(), 0x4380u);
  EXPECT_EQ(*dot({256, 1, 0x1p-14}, {1, 1, 1}, DType::kBFloat16).as<std::uint16_t>(), 0x4381u);
  EXPECT_EQ(*dot({60000, 60000}, {1, 1}, DType::kFloat16).as<std::uint16_t>(), 0x7c00u);
}

TEST_P(MatmulEdges, subnormals_and_rounding_survive_a_caller_that_changes_them) {
  Values left(DType::kFloat32, 2), right(DType::kFloat32, 4);
  set_element(left, 0, 0x1p-100);
  set_element(left, 1, 1);
  set_element(right, 0, 0x1p-40);  // column 0: 2^-140 + 2^-140
  set_element(right, 2, 0x1p-140);
  set_element(right, 1, 0x1.8p+76);  // column 1: 1.5 * 2^-24 + 1
  set_element(right, 3, 1);
  const Matrix a(left, 1, 2), b(right, 2, 2);
#if defined(__x86_64__)
  const unsigned found = _mm_getcsr();
  const unsigned changed = found | 0xa040u;  // flush to zero, denormals are zero, round down
  _mm_setcsr(changed);
#endif
  const Values out = product(a.view(), b.view(), DType::kFloat32, GetParam(), 1);
#if defined(__x86_64__)
  EXPECT_EQ(_mm_getcsr() & ~0x3fu, changed & ~0x3fu) << "the caller's environment was not restored";
  _mm_setcsr(found);
#endif
  EXPECT_EQ(out.as<float>()[0], 0x1p-139f);
  EXPECT_EQ(out.as<float>()[1], 1 + 0x1p-23f);
}

// Inputs from Rng, results of exact rational arithmetic (tools/record_fma_golden.py).
TEST_P(MatmulEdges, golden_vectors) {
  std::ifstream file(std::string(SAMEBITS_TEST_DATA) + "/golden/fma.json");
  ASSERT_TRUE(file.good());
  const nlohmann::json golden = nlohmann::json::parse(file);
  ASSERT_GE(golden["cases"].size(), 8u);
  for (const auto& entry : golden["cases"]) {
    SCOPED_TRACE(entry["contract"].get<std::string>() + " K = " + std::to_string(entry["depth"].get<int>()));
    const DType dtype = entry["contract"] == "fma64.v1" ? DType::kFloat64 : DType::kFloat32;
    const std::int64_t rows = entry["rows"], columns = entry["columns"], depth = entry["depth"];
    Rng rng(entry["seed"].get<std::uint64_t>());
    const auto fill = [&](std::int64_t count) {
      Values values(dtype, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t bits = rng.bits();
        const int exponent = static_cast<int>((bits >> 56) & 15) - 12;
        const auto significand = static_cast<double>(static_cast<std::int64_t>(bits & 0xffffffu) - 0x800000);
        set_element(values, i, std::ldexp(significand, exponent - 23));
      }
      return values;
    };
    const Values left = fill(rows * depth), right = fill(depth * columns);
    const Matrix a(left, rows, depth), b(right, depth, columns);
    Values expected(dtype, rows * columns);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::uint64_t bits = std::stoull(entry["out"][i].get<std::string>(), nullptr, 16);
      std::memcpy(expected.bytes.data() + i * dtype_size(dtype), &bits, dtype_size(dtype));
    }
    EXPECT_TRUE(same_bits(expected, product(a.view(), b.view(), dtype, GetParam(), 2)));
    EXPECT_TRUE(same_bits(expected, twin_product(a.view(), b.view(), dtype)));
  }
}

INSTANTIATE_TEST_SUITE_P(backends, MatmulEdges, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
