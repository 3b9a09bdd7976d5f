// samebits::matmul.
#include <array>

#include "device.h"

namespace samebits::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;

DType from_torch(torch::headeronly::ScalarType type) {
  switch (type) {
    case torch::headeronly::ScalarType::Float: return DType::kFloat32;
    case torch::headeronly::ScalarType::Double: return DType::kFloat64;
    case torch::headeronly::ScalarType::Half: return DType::kFloat16;
    case torch::headeronly::ScalarType::BFloat16: return DType::kBFloat16;
    default:
      throw Error(ErrorCode::kType, "out_dtype", "is not a floating type; may be the operands' or float32");
  }
}

Tensor matmul(const Tensor& a, const Tensor& b, std::optional<torch::headeronly::ScalarType> out_dtype,
              std::string contract, std::string backend, const OptionalTensor& bias) {
  return guarded([&] {
    if (a.dim() != 2 || b.dim() != 2)
      throw Error(ErrorCode::kInvalidArgument, a.dim() != 2 ? "a" : "b", "must have 2 dimensions");
    const std::array<std::int64_t, 2> shape{a.size(0), b.size(1)};
    const ConstTensorView left = view(a);
    Tensor result = empty(shape, out_dtype ? from_torch(*out_dtype) : left.dtype, a);
    MatmulOptions options;
    options.contract = contract;
    options.bias = view(bias);
    const ConstTensorView right = view(b);
    const TensorView out = mutable_view(result);
    Call call(backend, a);
    samebits::matmul(left, right, out, options, call.with_scratch([&](const ExecContext& context) {
      return matmul_workspace_bytes(left, right, out, options, context);
    }));
    return result;
  });
}

SAMEBITS_REGISTER(SAMEBITS_TORCH_KEY, library) { library.impl("matmul", TORCH_BOX(&matmul)); }

}  // namespace
}  // namespace samebits::torch_binding
