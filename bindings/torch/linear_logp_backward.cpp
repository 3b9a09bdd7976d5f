// samebits::linear_logp_backward and linear_logp_backward_into.
#include <array>
#include <tuple>

#include "device.h"

namespace samebits::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<std::int64_t>;

// What both backward operators are given of the forward call and from above.
struct Upstream {
  const Tensor &row_max, &row_sum, &row_entropy_sum;
  const OptionalTensor &saved, &logp, &lse, &entropy;
};

// Empty for a gradient not asked for, and for that of weight where it is added to the caller's buffer.
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

constexpr std::array<std::int64_t, 1> kNone{0};

Gradients backward(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                   const OptionalTensor& bias, const Upstream& upstream, const OptionalTensor& accumulator,
                   bool to_hidden, bool to_weight, bool to_bias, const std::string& contract,
                   const LogpOptions& options, const std::string& backend) {
  const auto result = [&](bool wanted, const Tensor& like) {
    return empty(wanted ? shape_of(like) : std::span<const std::int64_t>(kNone), dtype_of(hidden), hidden);
  };
  to_bias = to_bias && bias.has_value();
  Tensor grad_hidden = result(to_hidden, hidden);
  Tensor grad_weight = result(to_weight, weight);
  Tensor grad_bias = result(to_bias, to_bias ? *bias : hidden);
  LinearLogpGradients gradients;
  if (to_hidden) gradients.hidden = mutable_view(grad_hidden);
  if (to_weight) gradients.weight = mutable_view(grad_weight);
  if (accumulator) gradients.weight_accumulator = mutable_view(*accumulator);
  if (to_bias) gradients.bias = mutable_view(grad_bias);
  LogpStats stats{view(upstream.row_max), view(upstream.row_sum), {}};
  if (upstream.entropy) stats.row_entropy_sum = view(upstream.row_entropy_sum);
  const ConstTensorView states = view(hidden), head = view(weight), ids = view(targets);
  Call call(backend, hidden);
  samebits::linear_logp_backward(states, head, ids, view(bias), options, stats,
                                 {view(upstream.logp), view(upstream.lse), view(upstream.entropy)}, gradients,
                                 contract, call.with_scratch([&](const ExecContext& context) {
                                   return linear_logp_backward_workspace_bytes(
                                       states, head, ids, view(bias), options, gradients, contract, context,
                                       upstream.saved ? upstream.saved->size(0) : 0);
                                 }),
                                 view(upstream.saved));
  return {grad_hidden, grad_weight, grad_bias};
}

Gradients linear_logp_backward(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                               const OptionalTensor& bias, const Tensor& row_max, const Tensor& row_sum,
                               const Tensor& row_entropy_sum, const OptionalTensor& grad_logp,
                               const OptionalTensor& grad_lse, const OptionalTensor& grad_entropy,
                               bool to_hidden, bool to_weight, bool to_bias, std::string contract,
                               const OptionalTensor& saved, const OptionalTensor& row_temperature,
                               const OptionalTensor& rows, double temperature, OptionalInt ignore_index,
                               std::string on_invalid, OptionalInt vocab_size, bool binary64,
                               std::string backend) {
  return guarded([&] {
    return backward(
        hidden, weight, targets, bias,
        {row_max, row_sum, row_entropy_sum, saved, grad_logp, grad_lse, grad_entropy}, {}, to_hidden,
        to_weight, to_bias, contract,
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64),
        backend);
  });
}

std::tuple<Tensor, Tensor> linear_logp_backward_into(
    const Tensor& hidden, const Tensor& weight, const Tensor& targets, const OptionalTensor& bias,
    const Tensor& row_max, const Tensor& row_sum, const Tensor& row_entropy_sum,
    const OptionalTensor& grad_logp, const OptionalTensor& grad_lse, const OptionalTensor& grad_entropy,
    const Tensor& grad_weight_accumulator, bool to_hidden, bool to_bias, std::string contract,
    const OptionalTensor& saved, const OptionalTensor& row_temperature, const OptionalTensor& rows,
    double temperature, OptionalInt ignore_index, std::string on_invalid, OptionalInt vocab_size,
    bool binary64, std::string backend) {
  return guarded([&] {
    const auto [grad_hidden, unused, grad_bias] = backward(
        hidden, weight, targets, bias,
        {row_max, row_sum, row_entropy_sum, saved, grad_logp, grad_lse, grad_entropy},
        grad_weight_accumulator, to_hidden, false, to_bias, contract,
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64),
        backend);
    return std::tuple(grad_hidden, grad_bias);
  });
}

SAMEBITS_REGISTER(SAMEBITS_TORCH_KEY, library) {
  library.impl("linear_logp_backward", TORCH_BOX(&linear_logp_backward));
  library.impl("linear_logp_backward_into", TORCH_BOX(&linear_logp_backward_into));
}

}  // namespace
}  // namespace samebits::torch_binding
