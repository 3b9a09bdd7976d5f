// samebits::embedding, embedding_backward and embedding_backward_into.
#include <array>
#include <vector>

#include "device.h"

namespace samebits::torch_binding {
namespace {

using OptionalInt = std::optional<std::int64_t>;

Tensor embedding(const Tensor& ids, const Tensor& weight, OptionalInt padding_idx, std::string on_invalid,
                 std::string backend) {
  return guarded([&] {
    if (weight.dim() != 2)
      throw Error(ErrorCode::kInvalidArgument, "weight", "must have 2 dimensions, [V, H]");
    const ConstTensorView rows = view(ids), table = view(weight);
    const auto leading = shape_of(ids);
    std::vector<std::int64_t> shape(leading.begin(), leading.end());
    shape.push_back(weight.size(1));
    Tensor result = empty(shape, table.dtype, weight);
    samebits::embedding_forward(rows, table, mutable_view(result),
                                {padding_idx, parse_on_invalid(on_invalid)}, Call(backend, weight).context());
    return result;
  });
}

void run_backward(const Tensor& ids, const Tensor& grad, const EmbeddingGradients& gradients,
                  OptionalInt padding_idx, const std::string& backend) {
  const ConstTensorView rows = view(ids), upstream = view(grad);
  const EmbeddingOptions options{padding_idx};
  Call call(backend, grad);
  samebits::embedding_backward(
      rows, upstream, gradients, options, call.with_scratch([&](const ExecContext& context) {
        return embedding_backward_workspace_bytes(rows, upstream, gradients, options, context);
      }));
}

Tensor embedding_backward(const Tensor& ids, const Tensor& grad, std::int64_t vocab, OptionalInt padding_idx,
                          std::string backend) {
  return guarded([&] {
    if (grad.dim() == 0) throw Error(ErrorCode::kInvalidArgument, "grad", "has no axis; must be [..., H]");
    if (vocab < 0)
      throw Error(ErrorCode::kInvalidArgument, "vocab",
                  "is " + std::to_string(vocab) + "; must be at least 1");
    const std::array<std::int64_t, 2> shape{vocab, grad.size(grad.dim() - 1)};
    Tensor result = empty(shape, dtype_of(grad), grad);
    run_backward(ids, grad, {mutable_view(result), {}}, padding_idx, backend);
    return result;
  });
}

void embedding_backward_into(const Tensor& ids, const Tensor& grad, const Tensor& accumulator,
                             OptionalInt padding_idx, std::string backend) {
  guarded([&] { run_backward(ids, grad, {{}, mutable_view(accumulator)}, padding_idx, backend); });
}

SAMEBITS_REGISTER(SAMEBITS_TORCH_KEY, library) {
  library.impl("embedding", TORCH_BOX(&embedding));
  library.impl("embedding_backward", TORCH_BOX(&embedding_backward));
  library.impl("embedding_backward_into", TORCH_BOX(&embedding_backward_into));
}

}  // namespace
}  // namespace samebits::torch_binding
