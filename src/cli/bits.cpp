#include "cli/bits.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace samebits::cli {
namespace {

std::uint64_t load_bits(std::span<const std::byte> value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, value.data(), value.size());
  return bits;
}

double as_double(std::span<const std::byte> value) {
  const std::uint64_t bits = load_bits(value);
  return value.size() == 4 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits))
                           : std::bit_cast<double>(bits);
}

// Maps patterns to integers in the order of the numbers, so that neighbours differ by one (and -0 equals +0).
std::int64_t ordered(std::span<const std::byte> value) {
  const std::uint64_t bits = load_bits(value);
  const std::uint64_t sign = std::uint64_t{1} << (8 * value.size() - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::optional<std::int64_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b,
                                             std::size_t element_bytes) {
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return std::nullopt;
  std::size_t at = 0;
  while (a[at] == b[at]) ++at;
  return static_cast<std::int64_t>(at / element_bytes);
}

std::int64_t count_differences(std::span<const std::byte> a, std::span<const std::byte> b,
                               std::size_t element_bytes) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < a.size(); at += element_bytes) {
    count += std::memcmp(a.data() + at, b.data() + at, element_bytes) != 0;
  }
  return count;
}

std::string pattern_text(std::span<const std::byte> value) {
  char text[20];
  std::snprintf(text, sizeof text, "%0*llx", static_cast<int>(2 * value.size()),
                static_cast<unsigned long long>(load_bits(value)));
  return text;
}

std::string value_text(std::span<const std::byte> value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", as_double(value));
  return text + (" (" + pattern_text(value) + ")");
}

std::string ulp_text(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (std::isnan(as_double(a)) || std::isnan(as_double(b))) return "not comparable";
  const auto x = static_cast<std::uint64_t>(ordered(a));
  const auto y = static_cast<std::uint64_t>(ordered(b));
  // Unsigned subtraction: two doubles of opposite sign can be further apart than a signed integer holds.
  return std::to_string(ordered(a) > ordered(b) ? x - y : y - x) + " ulp";
}

}  // namespace samebits::cli
