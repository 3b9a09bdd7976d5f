// Conversions and fixed point of src/order against independent formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "order/fixed_point.h"
#include "order/number.h"
#include "rng.h"

namespace samebits::test {
namespace {

// A 16-bit format by its digits and exponents; value of a non-negative finite pattern.
struct Format {
  int digits;        // of the significand, the hidden one included
  int min_exponent;  // of the smallest normal number
  std::uint16_t infinity;
};
constexpr Format kHalf{11, -14, 0x7c00}, kBrain{8, -126, 0x7f80};

double value_of(const Format& format, std::uint16_t bits) {
  const int stored = format.digits - 1, field = bits >> stored;
  const int significand = (bits & ((1 << stored) - 1)) + (field > 0 ? 1 << stored : 0);
  return std::ldexp(significand, format.min_exponent - stored + (field > 0 ? field - 1 : 0));
}

// The pattern nearest to a non-negative finite value, ties to even, found by bisection over all patterns.
std::uint16_t nearest(const Format& format, double value) {
  int low = 0, high = format.infinity;  // value_of(low) <= value < "value of high"
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (value_of(format, static_cast<std::uint16_t>(middle)) <= value ? low : high) = middle;
  }
  // The infinity stands where the next number would be.
  const double below = value_of(format, static_cast<std::uint16_t>(low));
  const double above = value_of(format, static_cast<std::uint16_t>(high));
  const double halfway = below + (above - below) / 2;
  if (value == halfway) return static_cast<std::uint16_t>(low % 2 == 0 ? low : high);
  return static_cast<std::uint16_t>(value < halfway ? low : high);
}

TEST(OrderNumber, every_16_bit_pattern_widens_exactly) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const auto magnitude = static_cast<std::uint16_t>(bits & 0x7fff);
    const float half = order::to_float(order::Float16{pattern}),
                brain = order::to_float(order::BFloat16{pattern});
    const auto check = [&](const Format& format, float value) {
      if (magnitude > format.infinity) {
        ASSERT_TRUE(std::isnan(value));
      } else if (magnitude == format.infinity) {
        ASSERT_TRUE(std::isinf(value));
      } else {
        ASSERT_EQ(std::abs(static_cast<double>(value)), value_of(format, magnitude));
      }
      if (magnitude <= format.infinity) {
        ASSERT_EQ(std::signbit(value), bits >= 0x8000);
      }
    };
    check(kHalf, half);
    check(kBrain, brain);
  }
}

TEST(OrderNumber, rounding_to_16_bits_is_to_nearest_even_once) {
  Rng rng(1);
  for (int i = 0; i < 400000; ++i) {
    double value;
    if (rng.chance(2)) {
      // At or right beside a number of the format or a midpoint between two.
      const Format& format = rng.chance(2) ? kHalf : kBrain;
      const auto bits = static_cast<std::uint16_t>(rng.below(format.infinity));
      const double below = value_of(format, bits),
                   above = value_of(format, static_cast<std::uint16_t>(bits + 1));
      value = rng.chance(2) ? below : below + (above - below) / 2;
      for (std::int64_t step = rng.between(0, 2); step > 0; --step)
        value = std::nextafter(value, rng.chance(2) ? 0 : 1e300);
    } else {
      value = std::ldexp(rng.uniform(), static_cast<int>(rng.between(-160, 135)));
    }
    const double sign = rng.chance(2) ? -1 : 1;
    const std::uint16_t sign_bit = sign < 0 ? 0x8000 : 0;
    ASSERT_EQ(order::round_to<order::Float16>(sign * value).bits, sign_bit | nearest(kHalf, value)) << value;
    ASSERT_EQ(order::round_to<order::BFloat16>(sign * value).bits, sign_bit | nearest(kBrain, value))
        << value;
    const float single = static_cast<float>(value);
    if (std::isinf(single)) continue;
    ASSERT_EQ(order::round_to<order::Float16>(static_cast<float>(sign) * single).bits,
              sign_bit | nearest(kHalf, single));
    ASSERT_EQ(order::round_to<order::BFloat16>(static_cast<float>(sign) * single).bits,
              sign_bit | nearest(kBrain, single));
  }
}

TEST(OrderNumber, every_nan_becomes_the_canonical_one) {
  Rng rng(2);
  for (int i = 0; i < 10000; ++i) {
    std::uint32_t bits = static_cast<std::uint32_t>(rng.bits()) | 0x7f800000u;
    if ((bits & 0x7fffffu) == 0) bits |= 1;
    float nan;
    std::memcpy(&nan, &bits, sizeof nan);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(order::round_to<float>(nan)), 0x7fffffffu);
    EXPECT_EQ(order::round_to<order::BFloat16>(nan).bits, 0x7fff);
    EXPECT_EQ(order::round_to<order::Float16>(nan).bits, 0x7fff);
    EXPECT_EQ(order::round_to<order::Float16>(static_cast<double>(nan)).bits, 0x7fff);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(order::round_to<double>(static_cast<double>(nan))),
              0x7ff8000000000000ull);
  }
}

TEST(OrderFixedPoint, of_row_v1_is_llrint) {
  Rng rng(3);
  for (int i = 0; i < 400000; ++i) {
    const float value = static_cast<float>(std::ldexp(rng.uniform(), static_cast<int>(rng.between(-50, 11))));
    if (value >= 2048) continue;
    ASSERT_EQ(order::to_fixed64(value),
              static_cast<std::uint64_t>(std::llrint(static_cast<double>(value) * 0x1p40)));
  }
  EXPECT_EQ(order::to_fixed64(0x1p-41f), 0u);  // a tie goes to even
  EXPECT_EQ(order::to_fixed64(0x1.8p-40f), 2u);
}

TEST(OrderFixedPoint, of_row64_v1_is_nearbyint_with_96_fraction_bits) {
  Rng rng(4);
  for (int i = 0; i < 400000; ++i) {
    double value = std::ldexp(rng.uniform() + 0x1p-53, static_cast<int>(rng.between(-110, 31)));
    // Ties: an odd multiple of 2^-97.
    if (rng.chance(4)) value = std::ldexp(static_cast<double>(2 * rng.below(1 << 20) + 1), -97);
    ASSERT_TRUE(order::to_fixed128(value) == static_cast<order::Fixed128>(std::nearbyint(value * 0x1p96)))
        << value;
  }
  EXPECT_TRUE(order::to_fixed128(0) == 0);
  EXPECT_TRUE(order::to_fixed128(0x1p-1074) == 0);
}

TEST(OrderFixedPoint, sums_become_binary64_by_one_rounding) {
  Rng rng(5);
  for (int i = 0; i < 400000; ++i) {
    order::Fixed128 sum = (static_cast<order::Fixed128>(rng.bits()) << 64) | rng.bits();
    sum >>= rng.below(128);
    if (rng.chance(3)) {  // a midpoint, or right beside it
      const int low = static_cast<int>(rng.between(1, 70));
      sum = ((static_cast<order::Fixed128>(rng.bits() >> 11 | (1ull << 52)) * 2 + 1) << low) +
            static_cast<order::Fixed128>(static_cast<__int128>(rng.between(-1, 1)));
    }
    ASSERT_EQ(order::fixed128_to_double(sum), static_cast<double>(sum));
  }
}

}  // namespace
}  // namespace samebits::test
