// samebits::logp, logp_out, logp_forward and logp_backward.
#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "device.h"

namespace samebits::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<std::int64_t>;

DType result_dtype(const Tensor& logits, bool binary64) {
  return is_binary64(logits, binary64) ? DType::kFloat64 : DType::kFloat32;
}

const ExecContext& with_scratch(Call& call, const ConstTensorView& logits, const LogpOptions& options) {
  return call.with_scratch(
      [&](const ExecContext& context) { return logp_workspace_bytes(logits, options, context); });
}

Tensor logp(const Tensor& logits, const Tensor& targets, const OptionalTensor& row_temperature,
            const OptionalTensor& rows, double temperature, OptionalInt ignore_index, std::string on_invalid,
            OptionalInt vocab_size, bool binary64, std::string backend) {
  return guarded([&] {
    const Tensor dense = dense_rows(logits);
    const LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    const ConstTensorView input = view(dense);
    Tensor result = empty(shape_of(targets), result_dtype(logits, binary64), logits);
    LogpOutputs outputs;
    outputs.logp = mutable_view(result);
    Call call(backend, logits);
    samebits::logp_forward(input, view(targets), options, outputs, with_scratch(call, input, options));
    return result;
  });
}

void logp_out(const Tensor& logits, const Tensor& targets, const Tensor& out,
              const OptionalTensor& row_temperature, const OptionalTensor& rows, double temperature,
              OptionalInt ignore_index, std::string on_invalid, OptionalInt vocab_size, bool binary64,
              std::string backend) {
  guarded([&] {
    const Tensor dense = dense_rows(logits);
    LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    options.keep_unselected = rows.has_value();
    const ConstTensorView input = view(dense);
    LogpOutputs outputs;
    outputs.logp = mutable_view(out);
    Call call(backend, logits);
    samebits::logp_forward(input, view(targets), options, outputs, with_scratch(call, input, options));
  });
}

// The saved sums have a second column, the high half, under row64.v1.
std::vector<std::int64_t> sum_shape(std::int64_t rows, bool wide) {
  return wide ? std::vector<std::int64_t>{rows, 2} : std::vector<std::int64_t>{rows};
}

using Outputs = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Outputs logp_forward(const Tensor& logits, const Tensor& targets, bool lse, bool entropy, bool stats,
                     const OptionalTensor& row_temperature, const OptionalTensor& rows, double temperature,
                     OptionalInt ignore_index, std::string on_invalid, OptionalInt vocab_size, bool binary64,
                     std::string backend) {
  return guarded([&] {
    const Tensor dense = dense_rows(logits);
    const ConstTensorView input = view(dense);
    const LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    const DType dtype = result_dtype(logits, binary64);
    const bool wide = dtype == DType::kFloat64;
    const std::int64_t count = targets.numel();
    const std::int64_t none[] = {0};
    const auto leading = shape_of(targets);
    const auto sums = sum_shape(stats ? count : 0, wide);
    const auto entropy_sums = sum_shape(stats && entropy ? count : 0, wide);

    Tensor logp_result = empty(leading, dtype, logits);
    Tensor lse_result = empty(lse ? leading : std::span(none), dtype, logits);
    Tensor entropy_result = empty(entropy ? leading : std::span(none), dtype, logits);
    Tensor row_max = empty(std::span(sums.data(), 1), dtype, logits);
    Tensor row_sum = empty(sums, DType::kInt64, logits);
    Tensor row_entropy_sum = empty(entropy_sums, DType::kInt64, logits);

    LogpOutputs outputs;
    outputs.logp = mutable_view(logp_result);
    if (lse) outputs.lse = mutable_view(lse_result);
    if (entropy) outputs.entropy = mutable_view(entropy_result);
    if (stats) {
      outputs.row_max = mutable_view(row_max);
      outputs.row_sum = mutable_view(row_sum);
      if (entropy) outputs.row_entropy_sum = mutable_view(row_entropy_sum);
    }
    Call call(backend, logits);
    samebits::logp_forward(input, view(targets), options, outputs, with_scratch(call, input, options));
    return Outputs(logp_result, lse_result, entropy_result, row_max, row_sum, row_entropy_sum);
  });
}

Tensor logp_backward(const Tensor& logits, const Tensor& targets, const Tensor& row_max,
                     const Tensor& row_sum, const Tensor& row_entropy_sum, const OptionalTensor& grad_logp,
                     const OptionalTensor& grad_lse, const OptionalTensor& grad_entropy,
                     const OptionalTensor& row_temperature, const OptionalTensor& rows, double temperature,
                     OptionalInt ignore_index, std::string on_invalid, OptionalInt vocab_size, bool binary64,
                     std::string backend) {
  return guarded([&] {
    const Tensor dense = dense_rows(logits);
    const LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    LogpStats stats{view(row_max), view(row_sum), {}};
    if (grad_entropy) stats.row_entropy_sum = view(row_entropy_sum);
    const LogpUpstream upstream{view(grad_logp), view(grad_lse), view(grad_entropy)};
    const ConstTensorView input = view(dense);
    Tensor result = empty(shape_of(logits), input.dtype, logits);
    Call call(backend, logits);
    samebits::logp_backward(input, view(targets), options, stats, upstream, mutable_view(result),
                            with_scratch(call, input, options));
    return result;
  });
}

SAMEBITS_REGISTER(SAMEBITS_TORCH_KEY, library) {
  library.impl("logp", TORCH_BOX(&logp));
  library.impl("logp_out", TORCH_BOX(&logp_out));
  library.impl("logp_forward", TORCH_BOX(&logp_forward));
  library.impl("logp_backward", TORCH_BOX(&logp_backward));
}

}  // namespace
}  // namespace samebits::torch_binding
