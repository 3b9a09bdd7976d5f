// samebits::linear_logp_backward: check, pick a backend, run.
#include <samebits/linear_logp.h>

#include "core/device_backend.h"
#include "core/linear_logp_gradient.h"
#include "core/logits_call.h"
#include "core/logp_checks.h"

namespace samebits {
namespace {

using core::shape_text;

std::string name_of(DType dtype) { return std::string(dtype_name(dtype)); }

// `output` is a buffer of the shape of `like`, of `dtype`.
void check_like(const TensorView& output, const char* name, DType dtype, const ConstTensorView& like,
                const char* like_name) {
  if (output.dtype != dtype)
    throw Error(ErrorCode::kType, name, "is " + name_of(output.dtype) + "; must be " + name_of(dtype));
  bool same = output.rank == like.rank;
  for (int i = 0; same && i < output.rank; ++i) same = output.shape[i] == like.shape[i];
  if (!same)
    throw Error(
        ErrorCode::kInvalidArgument, name,
        "has shape " + shape_text(output) + "; must have the shape " + shape_text(like) + " of " + like_name);
  core::check_writable(output, name, like.device);
}

const TensorView& weight_gradient(const LinearLogpGradients& gradients) {
  return gradients.weight_accumulator ? gradients.weight_accumulator : gradients.weight;
}

void set_gradients(core::LinearLogpGradient& problem, const LinearLogpGradients& gradients,
                   const ConstTensorView& hidden, const ConstTensorView& weight) {
  problem.weight_rows = weight.shape[0];
  if (gradients.hidden)
    problem.grad_hidden = {gradients.hidden.data, hidden.dtype,
                           core::RowIndex::of(gradients.hidden, hidden.rank - 1)};
  problem.grad_weight = weight_gradient(gradients).data;
  problem.grad_weight_stride = weight_gradient(gradients).strides[0];
  problem.accumulate = bool{gradients.weight_accumulator};
  problem.grad_bias = gradients.bias.data;
  problem.grad_bias_stride = gradients.bias.strides[0];
}

}  // namespace

void linear_logp_backward(const ConstTensorView& hidden, const ConstTensorView& weight,
                          const ConstTensorView& targets, const ConstTensorView& bias,
                          const LogpOptions& options, const LogpStats& stats, const LogpUpstream& upstream,
                          const LinearLogpGradients& gradients, std::string_view contract,
                          const ExecContext& context, const ConstTensorView& saved) {
  core::LinearLogpGradient problem;
  core::LinearLogpProblem& head = problem.head;
  head = core::head_problem(hidden, weight, targets, bias, options, contract);
  head.logp.keep_unselected = false;
  core::set_statistics(head.logp, stats, bool{upstream.entropy});
  core::set_upstreams(head.logp, upstream, targets);
  if (saved) {
    core::check_saved(saved, head, options);
    problem.saved = {saved.data, saved.shape[0], core::saved_columns(head.logp.vocab)};
  }

  const DType wide = core::real_dtype(head.logp);
  const TensorView& weight_out = weight_gradient(gradients);
  if (gradients.weight && gradients.weight_accumulator)
    throw Error(ErrorCode::kInvalidArgument, "grad_weight_accumulator",
                "is given beside grad_weight; may be one of the two");
  if (gradients.bias && !bias)
    throw Error(ErrorCode::kInvalidArgument, "grad_bias", "is given without a bias; may be absent");
  if (gradients.hidden) {
    check_like(gradients.hidden, "grad_hidden", hidden.dtype, hidden, "hidden");
    core::check_dense(gradients.hidden, "grad_hidden");
  }
  const char* weight_name = gradients.weight_accumulator ? "grad_weight_accumulator" : "grad_weight";
  if (weight_out) {
    check_like(weight_out, weight_name, gradients.weight_accumulator ? wide : weight.dtype, weight, "weight");
    core::check_dense(weight_out, weight_name);
  }
  if (gradients.bias) check_like(gradients.bias, "grad_bias", bias.dtype, bias, "bias");

  const std::pair<const char*, ConstTensorView> inputs[] = {{"hidden", hidden},
                                                            {"weight", weight},
                                                            {"targets", targets},
                                                            {"bias", bias},
                                                            {"temperature", options.row_temperature},
                                                            {"rows", options.rows},
                                                            {"row_max", stats.row_max},
                                                            {"row_sum", stats.row_sum},
                                                            {"row_entropy_sum", stats.row_entropy_sum},
                                                            {"grad_logp", upstream.logp},
                                                            {"grad_lse", upstream.lse},
                                                            {"grad_entropy", upstream.entropy},
                                                            {"saved", saved}};
  const std::pair<const char*, ConstTensorView> outputs[] = {
      {"grad_hidden", gradients.hidden}, {weight_name, weight_out}, {"grad_bias", gradients.bias}};
  for (int i = 0; i < 3; ++i) {
    const auto& [name, output] = outputs[i];
    if (!output) continue;
    for (const auto& [input_name, input] : inputs)
      if (input) core::check_no_overlap(output, name, input, input_name);
    for (int k = 0; k < i; ++k)
      if (outputs[k].second) core::check_no_overlap(output, name, outputs[k].second, outputs[k].first);
    core::check_workspace(context.workspace, {outputs[i]});
  }
  for (const auto& input : inputs) core::check_workspace(context.workspace, {input});

  set_gradients(problem, gradients, hidden, weight);
  if (core::on_device(head.logp.device))
    return core::pick_device_backend(head.logp.device, context)
        .linear_logp_backward(problem, core::make_device_call(head.logp.device, context, options));
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  const std::size_t selection = core::selection_bytes(head.logp, options);
  const core::Scratch scratch(
      context.workspace, selection + backend.linear_logp_backward_scratch_bytes(problem, executor.threads));
  core::select_rows(head.logp, options, reinterpret_cast<std::uint64_t*>(scratch.data()));
  core::raise_on_invalid(head.logp, options.on_invalid);
  executor.workspace = scratch.after(selection);
  backend.linear_logp_backward(problem, executor);
}

std::size_t linear_logp_backward_workspace_bytes(const ConstTensorView& hidden, const ConstTensorView& weight,
                                                 const ConstTensorView& targets, const ConstTensorView& bias,
                                                 const LogpOptions& options,
                                                 const LinearLogpGradients& gradients,
                                                 std::string_view contract, const ExecContext& context,
                                                 std::int64_t saved_rows) {
  core::LinearLogpGradient problem;
  problem.head = core::head_problem(hidden, weight, targets, bias, options, contract);
  problem.saved = {nullptr, saved_rows, core::saved_columns(problem.head.logp.vocab)};
  set_gradients(problem, gradients, hidden, weight);
  const core::LogpProblem& logp = problem.head.logp;
  if (core::on_device(logp.device))
    return core::pick_device_backend(logp.device, context)
        .linear_logp_backward_scratch_bytes(problem, core::make_device_call(logp.device, context, options));
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(
      core::selection_bytes(logp, options) +
      backend.linear_logp_backward_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
