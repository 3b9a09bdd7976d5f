// Comparison of results by their raw bits, and how a difference is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace samebits::cli {

/// Index of the first element whose bits differ (signed zeros and NaN patterns included), or nothing.
/// Both spans have the same size.
std::optional<std::int64_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b,
                                             std::size_t element_bytes);

/// Number of elements whose bits differ.
std::int64_t count_differences(std::span<const std::byte> a, std::span<const std::byte> b,
                               std::size_t element_bytes);

/// "-0x1.8p+1 (c0400000)" of a float (4 bytes) or double (8 bytes).
std::string value_text(std::span<const std::byte> value);

/// "c0400000": the bits alone, of 2, 4 or 8 bytes.
std::string pattern_text(std::span<const std::byte> value);

/// "1 ulp", "37 ulp", or "not comparable" when one of them is a NaN.
std::string ulp_text(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace samebits::cli
