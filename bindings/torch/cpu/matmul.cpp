// samebits::matmul and linear_logp_forward.
#include <array>
#include <tuple>

#include "../device.h"

namespace samebits::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<std::int64_t>;

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
    samebits::matmul(left, view(b), mutable_view(result), options, Call(backend, a).context());
    return result;
  });
}

using Outputs = std::tuple<Tensor, Tensor, Tensor>;

Outputs linear_logp_forward(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                            const OptionalTensor& bias, bool lse, bool entropy, std::string contract,
                            const OptionalTensor& row_temperature, const OptionalTensor& rows,
                            double temperature, OptionalInt ignore_index, std::string on_invalid,
                            OptionalInt vocab_size, bool binary64, std::string backend) {
  return guarded([&] {
    const LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    const DType dtype = is_binary64(hidden, binary64) ? DType::kFloat64 : DType::kFloat32;
    const std::int64_t none[] = {0};
    const auto leading = shape_of(targets);
    Tensor logp_result = empty(leading, dtype, hidden);
    Tensor lse_result = empty(lse ? leading : std::span(none), dtype, hidden);
    Tensor entropy_result = empty(entropy ? leading : std::span(none), dtype, hidden);
    LogpOutputs outputs;
    outputs.logp = mutable_view(logp_result);
    if (lse) outputs.lse = mutable_view(lse_result);
    if (entropy) outputs.entropy = mutable_view(entropy_result);
    MatmulOptions matmul_options;
    matmul_options.contract = contract;
    samebits::linear_logp_forward(view(hidden), view(weight), view(targets), view(bias), options, outputs,
                                  matmul_options, Call(backend, hidden).context());
    return Outputs(logp_result, lse_result, entropy_result);
  });
}

STABLE_TORCH_LIBRARY_IMPL(samebits, CPU, library) {
  library.impl("matmul", TORCH_BOX(&matmul));
  library.impl("linear_logp_forward", TORCH_BOX(&linear_logp_forward));
}

}  // namespace
}  // namespace samebits::torch_binding
