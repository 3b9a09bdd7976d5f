// Element types of tensors, and their names and sizes.
#pragma once

#include <cstdint>
#include <string_view>

namespace samebits {

/// Element type of a view. Logits, hidden and weight are floating; targets and row lists are integers.
enum class DType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64 };

/// Name as PyTorch and safetensors users know it: "float32", "bfloat16", "int64", ...
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float32";
    case DType::kFloat64: return "float64";
    case DType::kFloat16: return "float16";
    case DType::kBFloat16: return "bfloat16";
    case DType::kInt32: return "int32";
    case DType::kInt64: return "int64";
  }
  return "unknown";
}

/// Bytes of one element.
constexpr std::int64_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return 4;
    case DType::kFloat64: return 8;
    case DType::kFloat16: return 2;
    case DType::kBFloat16: return 2;
    case DType::kInt32: return 4;
    case DType::kInt64: return 8;
  }
  return 0;
}

/// True for the four floating types.
constexpr bool is_floating(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kInt64; }

}  // namespace samebits
