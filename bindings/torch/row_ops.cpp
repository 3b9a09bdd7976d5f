// samebits::probability and row_sum.
#include "device.h"

namespace samebits::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<std::int64_t>;

Tensor probability(const Tensor& logits, const Tensor& targets, const Tensor& row_max, const Tensor& row_sum,
                   const OptionalTensor& row_temperature, const OptionalTensor& rows, double temperature,
                   OptionalInt ignore_index, std::string on_invalid, OptionalInt vocab_size, bool binary64,
                   std::string backend) {
  return guarded([&] {
    const Tensor dense = dense_rows(logits);
    const LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    const ConstTensorView input = view(dense);
    const LogpStats stats{view(row_max), view(row_sum), {}};
    Tensor result =
        empty(shape_of(logits), is_binary64(logits, binary64) ? DType::kFloat64 : DType::kFloat32, logits);
    Call call(backend, logits);
    samebits::probability(input, view(targets), options, stats, mutable_view(result),
                          call.with_scratch([&](const ExecContext& context) {
                            return logp_workspace_bytes(input, options, context);
                          }));
    return result;
  });
}

Tensor row_sum(const Tensor& values, std::string backend) {
  return guarded([&] {
    if (values.dim() == 0)
      throw Error(ErrorCode::kInvalidArgument, "values", "has no axis; must have at least one");
    const Tensor dense = dense_rows(values);
    const ConstTensorView input = view(dense);
    const auto leading = shape_of(values).first(static_cast<std::size_t>(values.dim() - 1));
    Tensor result = empty(leading, input.dtype, values);
    Call call(backend, values);
    samebits::row_sum(input, mutable_view(result), call.with_scratch([&](const ExecContext& context) {
      return row_sum_workspace_bytes(input, context);
    }));
    return result;
  });
}

SAMEBITS_REGISTER(SAMEBITS_TORCH_KEY, library) {
  library.impl("probability", TORCH_BOX(&probability));
  library.impl("row_sum", TORCH_BOX(&row_sum));
}

}  // namespace
}  // namespace samebits::torch_binding
