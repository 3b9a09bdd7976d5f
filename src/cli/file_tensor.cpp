#include "cli/file_tensor.h"

#include <algorithm>
#include <array>

namespace samebits::cli {
namespace {

struct ElementInfo {
  ElementType type;
  std::string_view name;
  int bits;
};

constexpr std::array<ElementInfo, 20> kElements = {{
    {ElementType::kBool, "BOOL", 8},      {ElementType::kU8, "U8", 8},
    {ElementType::kI8, "I8", 8},          {ElementType::kU16, "U16", 16},
    {ElementType::kI16, "I16", 16},       {ElementType::kU32, "U32", 32},
    {ElementType::kI32, "I32", 32},       {ElementType::kU64, "U64", 64},
    {ElementType::kI64, "I64", 64},       {ElementType::kF16, "F16", 16},
    {ElementType::kBF16, "BF16", 16},     {ElementType::kF32, "F32", 32},
    {ElementType::kF64, "F64", 64},       {ElementType::kC64, "C64", 64},
    {ElementType::kF8E5M2, "F8_E5M2", 8}, {ElementType::kF8E4M3, "F8_E4M3", 8},
    {ElementType::kF8E8M0, "F8_E8M0", 8}, {ElementType::kF4, "F4", 4},
    {ElementType::kF6E2M3, "F6_E2M3", 6}, {ElementType::kF6E3M2, "F6_E3M2", 6},
}};

constexpr bool table_follows_the_enum() {
  for (std::size_t i = 0; i < kElements.size(); ++i) {
    if (static_cast<std::size_t>(kElements[i].type) != i) return false;
  }
  return true;
}
static_assert(table_follows_the_enum());

}  // namespace

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (const ElementInfo& info : kElements) {
    if (info.name == name) return info.type;
  }
  return std::nullopt;
}

std::string_view element_type_name(ElementType type) {
  return kElements[static_cast<std::size_t>(type)].name;
}

int element_bits(ElementType type) { return kElements[static_cast<std::size_t>(type)].bits; }

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  // A zero anywhere makes the product zero, but extents that overflow beside it are still nonsense.
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent != 0 && product > kLimit / extent) return std::nullopt;
    product *= std::max<std::int64_t>(extent, 1);
  }
  return std::ranges::find(shape, 0) != shape.end() ? 0 : product;
}

std::optional<std::uint64_t> byte_count(ElementType type, std::int64_t elements) {
  const auto bits = static_cast<std::uint64_t>(element_bits(type));
  const auto count = static_cast<std::uint64_t>(elements);
  if (count > UINT64_MAX / bits || count * bits % 8 != 0) return std::nullopt;
  return count * bits / 8;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace samebits::cli
