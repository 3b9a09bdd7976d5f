// samebits::linear_logp_forward.
#include <algorithm>
#include <array>
#include <tuple>

#include "device.h"

namespace samebits::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<std::int64_t>;

constexpr std::array<std::int64_t, 1> kNone{0};

// One number per row, or two words of each sum under row64.v1.
Tensor statistic(std::int64_t rows, bool words, DType real, const Tensor& like) {
  const std::array<std::int64_t, 2> shape{rows, 2};
  const bool two = words && real == DType::kFloat64;
  return empty(std::span(shape).first(two ? 2 : 1), words ? DType::kInt64 : real, like);
}

// Room for P of the rows that take part, as many as are allowed. None on a CPU, where it costs more to read back than to
// compute again.
Tensor room_for_p(std::int64_t allowed, const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                  const OptionalTensor& listed, OptionalInt vocab_size) {
  std::int64_t rows = device_of(hidden).type == DeviceType::kCpu ? 0 : std::min(allowed, targets.numel());
  if (listed) rows = std::min(rows, listed->numel());
  // A vocabulary that is too large is refused by the call.
  const std::int64_t columns = std::min(vocab_size.value_or(weight.size(0)), weight.size(0));
  return empty(std::array<std::int64_t, 2>{std::max<std::int64_t>(rows, 0), (columns + 63) / 64 * 64},
               dtype_of(weight), weight);
}

using Outputs = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Outputs linear_logp_forward(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                            const OptionalTensor& bias, bool lse, bool entropy, bool stats,
                            std::string contract, std::int64_t saved_rows,
                            const OptionalTensor& row_temperature, const OptionalTensor& rows,
                            double temperature, OptionalInt ignore_index, std::string on_invalid,
                            OptionalInt vocab_size, bool binary64, std::string backend) {
  return guarded([&] {
    const LogpOptions options =
        make_options(row_temperature, rows, temperature, ignore_index, on_invalid, vocab_size, binary64);
    const DType dtype = is_binary64(hidden, binary64) ? DType::kFloat64 : DType::kFloat32;
    const auto leading = shape_of(targets);
    const std::int64_t count = stats ? targets.numel() : 0;
    Tensor logp_result = empty(leading, dtype, hidden);
    Tensor lse_result = empty(lse ? leading : std::span<const std::int64_t>(kNone), dtype, hidden);
    Tensor entropy_result = empty(entropy ? leading : std::span<const std::int64_t>(kNone), dtype, hidden);
    Tensor row_max = statistic(count, false, dtype, hidden);
    Tensor row_sum = statistic(count, true, dtype, hidden);
    Tensor row_entropy_sum = statistic(entropy ? count : 0, true, dtype, hidden);
    LogpOutputs outputs;
    outputs.logp = mutable_view(logp_result);
    if (lse) outputs.lse = mutable_view(lse_result);
    if (entropy) outputs.entropy = mutable_view(entropy_result);
    if (stats) {
      outputs.row_max = mutable_view(row_max);
      outputs.row_sum = mutable_view(row_sum);
      if (entropy) outputs.row_entropy_sum = mutable_view(row_entropy_sum);
    }
    Tensor saved = room_for_p(saved_rows, hidden, weight, targets, rows, vocab_size);
    const ConstTensorView states = view(hidden), head = view(weight), ids = view(targets);
    Call call(backend, hidden);
    samebits::linear_logp_forward(states, head, ids, view(bias), options, outputs, {contract},
                                  call.with_scratch([&](const ExecContext& context) {
                                    return linear_logp_workspace_bytes(states, head, ids, view(bias), options,
                                                                       entropy, contract, context,
                                                                       saved.size(0));
                                  }),
                                  mutable_view(saved));
    return Outputs(logp_result, lse_result, entropy_result, row_max, row_sum, row_entropy_sum, saved);
  });
}

SAMEBITS_REGISTER(SAMEBITS_TORCH_KEY, library) {
  library.impl("linear_logp_forward", TORCH_BOX(&linear_logp_forward));
}

}  // namespace
}  // namespace samebits::torch_binding
