#include "run_case.h"

#include <cstring>
#include <limits>
#include <memory>

namespace samebits::test {
namespace {

// Stride 0 can stand for equal rows only; other tensors of the call keep their strides.
Placement allowed(Placement placement, const Values& values, std::int64_t per_row) {
  const auto bytes = static_cast<std::size_t>(per_row * dtype_size(values.dtype));
  for (std::size_t at = bytes; at < values.bytes.size(); at += bytes)
    if (std::memcmp(values.bytes.data(), values.bytes.data() + at, bytes) != 0) placement.expanded = false;
  return placement;
}

// A per-row tensor in the layout's placement.
std::unique_ptr<Strided> placed(const Values& values, const std::vector<std::int64_t>& leading,
                                const Placement& placement) {
  std::int64_t rows = 1;
  for (const std::int64_t extent : leading) rows *= extent;
  if (values.count() != rows) return nullptr;  // not given
  auto tensor = std::make_unique<Strided>(values.dtype, leading, -1, allowed(placement, values, 1));
  tensor->scatter(values);
  return tensor;
}

TensorView enter(Residence& residence, Strided& tensor) {
  return residence.enter(tensor.storage(), tensor.view());
}
ConstTensorView enter(Residence& residence, const std::unique_ptr<Strided>& tensor) {
  return tensor ? ConstTensorView(enter(residence, *tensor)) : ConstTensorView();
}

Values integers(const std::vector<std::int64_t>& from, bool narrow) {
  for (const std::int64_t value : from)
    narrow = narrow && value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max();
  Values values(narrow ? DType::kInt32 : DType::kInt64, static_cast<std::int64_t>(from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (narrow)
      values.as<std::int32_t>()[i] = static_cast<std::int32_t>(from[i]);
    else
      values.as<std::int64_t>()[i] = from[i];
  }
  return values;
}

TensorView contiguous(Residence& residence, Values& values, std::initializer_list<std::int64_t> shape) {
  return residence.enter(values.bytes, {values.bytes.data(), values.dtype, shape});
}

}  // namespace

LogpOptions options_of(const LogpCase& c) {
  LogpOptions options;
  options.temperature = c.temperature;
  options.keep_unselected = c.keep_unselected;
  options.ignore_index = c.ignore_index;
  options.on_invalid = c.on_invalid;
  if (c.vocab != c.columns) options.vocab_size = c.vocab;
  options.precision = c.precision;
  return options;
}

LogpResult run_case(const LogpCase& c, const LogpResult& saved, const Layout& layout,
                    const ExecContext& context) {
  Residence host;
  return run_case(c, saved, layout, context, host);
}

LogpResult run_case(const LogpCase& c, const LogpResult& saved, const Layout& layout, const ExecContext& base,
                    Residence& residence) {
  const std::vector<std::int64_t> leading =
      layout.leading.empty() ? std::vector<std::int64_t>{c.rows} : layout.leading;
  Strided logits(c.logits.dtype, leading, c.columns, allowed(layout.logits, c.logits, c.columns));
  logits.scatter(c.logits);
  const auto targets = placed(integers(c.targets, layout.narrow_ids), leading, layout.per_row);
  const auto temperature = placed(c.row_temperature, leading, layout.per_row);
  std::unique_ptr<Strided> rows;
  if (c.selected) {
    const Values list = integers(*c.selected, layout.narrow_rows);
    rows = std::make_unique<Strided>(list.dtype, std::vector<std::int64_t>{list.count()}, -1,
                                     allowed(layout.per_row, list, 1));
    rows->scatter(list);
  }
  const ConstTensorView x = enter(residence, logits), ids = enter(residence, targets);
  LogpOptions options = options_of(c);
  if (!c.row_temperature.bytes.empty()) options.row_temperature = enter(residence, temperature);
  options.rows = enter(residence, rows);

  ExecContext context = base;
  if (layout.workspace != Layout::Workspace::kNone) {
    const std::size_t needed = logp_workspace_bytes(x, options, context);
    context.workspace =
        residence.workspace(layout.workspace == Layout::Workspace::kGiven ? needed : needed / 2);
  }

  LogpResult result(c);
  Strided logp(c.real(), leading, -1, layout.outputs), lse(c.real(), leading, -1, layout.outputs);
  Strided entropy(c.real(), leading, -1, layout.outputs);
  LogpOutputs outputs;
  outputs.logp = enter(residence, logp);
  outputs.lse = enter(residence, lse);
  if (layout.with_entropy) outputs.entropy = enter(residence, entropy);
  const auto sum_view = [&](Values& sums) {
    return c.binary64() ? contiguous(residence, sums, {c.rows, 2}) : contiguous(residence, sums, {c.rows});
  };
  if (layout.with_stats) {
    outputs.row_max = contiguous(residence, result.row_max, {c.rows});
    outputs.row_sum = sum_view(result.row_sum);
    if (layout.with_entropy) outputs.row_entropy_sum = sum_view(result.row_entropy_sum);
  }
  logp_forward(x, ids, options, outputs, context);
  residence.bring_back();
  result.logp = logp.gather();
  result.lse = lse.gather();
  result.entropy = entropy.gather();
  for (const Strided* output : {&logp, &lse, &entropy})
    EXPECT_TRUE(output->gaps_are_untouched()) << "forward wrote between the elements of an output";

  LogpResult stats = saved;
  const auto grad_logp = placed(c.grad_logp, leading, layout.per_row);
  const auto grad_lse = placed(c.grad_lse, leading, layout.per_row);
  const auto grad_entropy = placed(c.grad_entropy, leading, layout.per_row);
  LogpUpstream upstream;
  if (!c.grad_logp.bytes.empty()) upstream.logp = enter(residence, grad_logp);
  if (!c.grad_lse.bytes.empty()) upstream.lse = enter(residence, grad_lse);
  if (!c.grad_entropy.bytes.empty()) upstream.entropy = enter(residence, grad_entropy);
  LogpStats backward_stats;
  backward_stats.row_max = contiguous(residence, stats.row_max, {c.rows});
  backward_stats.row_sum = sum_view(stats.row_sum);
  if (upstream.entropy) backward_stats.row_entropy_sum = sum_view(stats.row_entropy_sum);
  Strided grad(c.logits.dtype, leading, c.columns, layout.grad);
  logp_backward(x, ids, options, backward_stats, upstream, enter(residence, grad), context);
  residence.bring_back();
  result.grad = grad.gather();
  EXPECT_TRUE(grad.gaps_are_untouched()) << "backward wrote between the rows of grad_logits";

  backward_stats.row_entropy_sum = {};
  Strided probabilities(c.real(), leading, c.columns, layout.grad);
  probability(x, ids, options, backward_stats, enter(residence, probabilities), context);
  residence.bring_back();
  result.probabilities = probabilities.gather();
  EXPECT_TRUE(probabilities.gaps_are_untouched()) << "probability wrote between its rows";
  EXPECT_TRUE(logits.is_untouched()) << "the logits were written";
  EXPECT_TRUE(targets->is_untouched()) << "the targets were written";
  return result;
}

LogpResult expected_of(const LogpCase& c, const LogpResult& from, const Layout& layout) {
  LogpResult expected = from;
  const LogpResult blank(c);
  if (!layout.with_entropy) expected.entropy = blank.entropy;
  if (!layout.with_stats || !layout.with_entropy) expected.row_entropy_sum = blank.row_entropy_sum;
  if (!layout.with_stats) {
    expected.row_max = blank.row_max;
    expected.row_sum = blank.row_sum;
  }
  return expected;
}

std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const BackendInfo& backend : backends())
    if (backend.available) names.push_back(backend.name);
  return names;
}

}  // namespace samebits::test
