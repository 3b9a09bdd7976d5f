#include "bits.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "order/number.h"

namespace samebits::test {
namespace {

std::uint64_t raw_bits(const Values& values, std::int64_t index) {
  const auto size = static_cast<std::size_t>(dtype_size(values.dtype));
  std::uint64_t bits = 0;
  std::memcpy(&bits, values.bytes.data() + static_cast<std::size_t>(index) * size, size);
  return bits;
}

// Bits of a floating value as an integer that grows with the value: neighbours differ by one, +0 and -0 by none.
std::int64_t ladder(const Values& values, std::int64_t index) {
  const std::uint64_t bits = raw_bits(values, index);
  const int width = static_cast<int>(8 * dtype_size(values.dtype));
  const std::uint64_t sign = 1ull << (width - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace

double element_value(const Values& values, std::int64_t index) {
  switch (values.dtype) {
    case DType::kFloat32: return values.as<float>()[index];
    case DType::kFloat64: return values.as<double>()[index];
    case DType::kFloat16: return order::to_float(values.as<order::Float16>()[index]);
    case DType::kBFloat16: return order::to_float(values.as<order::BFloat16>()[index]);
    case DType::kInt32: return values.as<std::int32_t>()[index];
    case DType::kInt64: return static_cast<double>(values.as<std::int64_t>()[index]);
  }
  return 0;
}

std::string element_text(const Values& values, std::int64_t index) {
  char text[96];
  const auto bits = static_cast<unsigned long long>(raw_bits(values, index));
  const int digits = static_cast<int>(2 * dtype_size(values.dtype));
  if (is_floating(values.dtype))
    std::snprintf(text, sizeof text, "%a (%0*llx)", element_value(values, index), digits, bits);
  else
    std::snprintf(text, sizeof text, "0x%0*llx", digits, bits);
  return text;
}

std::string ulp_distance(const Values& a, const Values& b, std::int64_t index) {
  if (!is_floating(a.dtype)) {
    const auto distance = static_cast<std::int64_t>(raw_bits(a, index) - raw_bits(b, index));
    return std::to_string(distance) + " units";
  }
  if (std::isnan(element_value(a, index)) || std::isnan(element_value(b, index))) return "a NaN, no distance";
  const std::int64_t x = ladder(a, index), y = ladder(b, index);
  return std::to_string(static_cast<std::uint64_t>(x > y ? x - y : y - x)) + " ulp";
}

::testing::AssertionResult same_bits(const Values& expected, const Values& actual, Finite finite) {
  if (expected.dtype != actual.dtype || expected.bytes.size() != actual.bytes.size()) {
    return ::testing::AssertionFailure()
           << "expected " << expected.count() << " of " << dtype_name(expected.dtype) << ", got "
           << actual.count() << " of " << dtype_name(actual.dtype);
  }
  const std::int64_t count = expected.count();
  if (expected.bytes != actual.bytes) {
    std::int64_t first = -1, differing = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (raw_bits(expected, i) == raw_bits(actual, i)) continue;
      if (first < 0) first = i;
      ++differing;
    }
    return ::testing::AssertionFailure()
           << differing << " of " << count << " elements differ; first at index " << first << ": expected "
           << element_text(expected, first) << ", got " << element_text(actual, first) << ", "
           << ulp_distance(expected, actual, first) << " apart";
  }
  if (finite == Finite::kSome && count > 0 && is_floating(expected.dtype)) {
    for (std::int64_t i = 0; i < count; ++i)
      if (std::isfinite(element_value(expected, i))) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "all " << count << " values are NaN or infinite: nothing was compared";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace samebits::test
