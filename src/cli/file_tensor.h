// A tensor as it lies in a file: name, element type, shape and bytes (C order, little-endian, any alignment).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace samebits::cli {

/// Every element type a safetensors file may hold; the command computes on a few of them and must skip the rest.
enum class ElementType {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF4,
  kF6E2M3,
  kF6E3M2,
};

/// The safetensors spelling ("F32"), or nothing for a spelling that the format does not know.
std::optional<ElementType> element_type_from_name(std::string_view name);
std::string_view element_type_name(ElementType type);
int element_bits(ElementType type);

/// Longest shape accepted. Both formats allow more; nobody uses more, and messages stay readable.
inline constexpr std::size_t kMaxFileRank = 32;

struct FileTensor {
  std::string name;  // empty for npy
  ElementType type = ElementType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;  // product of shape
  std::span<const std::byte> data;
};

/// Product of `shape`, or nothing when an extent is negative or the product passes 2^62.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape);

/// Bytes of that many elements, or nothing on overflow or when sub-byte elements do not fill whole bytes.
std::optional<std::uint64_t> byte_count(ElementType type, std::int64_t elements);

/// "[2, 3, 128]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace samebits::cli
