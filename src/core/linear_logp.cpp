// samebits::linear_logp_forward: check, pick a backend, run.
#include <samebits/linear_logp.h>
#include <samebits/matmul.h>

#include "core/backend.h"
#include "core/device_backend.h"
#include "core/linear_logp_gradient.h"
#include "core/logits_call.h"
#include "core/product_checks.h"

namespace samebits {
namespace {

using core::check_matrix, core::check_operand, core::check_same_dtype, core::name_of, core::shape_text;

// Hidden states against the head's weight; a mistake here is most often a matrix in the wrong place.
void check_head(const ConstTensorView& hidden, const ConstTensorView& weight, const ConstTensorView& bias) {
  check_operand(hidden, "hidden");
  check_matrix(weight, "weight", "[vocab, hidden]", hidden.device);
  check_same_dtype(weight, "weight", hidden.dtype, "hidden");
  if (hidden.rank < 1)
    throw Error(ErrorCode::kInvalidArgument, "hidden", "has no axis; must be [..., hidden]");
  if (weight.shape[0] == 0 || weight.shape[1] == 0)
    throw Error(ErrorCode::kInvalidArgument, "weight",
                "has shape " + shape_text(weight) + "; must have at least one row and one column");
  const std::int64_t size = hidden.shape[hidden.rank - 1];
  if (size != weight.shape[1]) {
    const bool logits = size == weight.shape[0];
    throw Error(ErrorCode::kInvalidArgument, "hidden",
                "has shape " + shape_text(hidden) + " and weight has shape " + shape_text(weight) +
                    "; the last axis of hidden must be " + std::to_string(weight.shape[1]) +
                    ", the last axis of weight" + (logits ? " (these look like logits: see logp)" : ""));
  }
  if (!bias) return;
  check_same_dtype(bias, "bias", hidden.dtype, "hidden");
  if (bias.rank != 1 || bias.shape[0] != weight.shape[0])
    throw Error(ErrorCode::kInvalidArgument, "bias",
                "has shape " + shape_text(bias) + "; must be [" + std::to_string(weight.shape[0]) +
                    "], one entry per row of weight " + shape_text(weight));
  core::check_memory(bias, "bias", hidden.device);
}

}  // namespace

core::LinearLogpProblem core::head_problem(const ConstTensorView& hidden, const ConstTensorView& weight,
                                           const ConstTensorView& targets, const ConstTensorView& bias,
                                           const LogpOptions& options, std::string_view contract) {
  check_head(hidden, weight, bias);
  const bool tc16 = core::check_contract(contract, hidden.dtype);
  core::check_head_precision(options.precision, hidden.dtype);
  LinearLogpProblem problem;
  problem.logp = make_problem(hidden, "hidden", weight.shape[0], "weight", targets, options);
  problem.tc16 = tc16;
  problem.hidden_size = weight.shape[1];
  problem.hidden = {hidden.data, hidden.dtype, RowIndex::of(hidden, hidden.rank - 1)};
  problem.hidden_stride = hidden.strides[hidden.rank - 1];
  problem.weight = {weight.data, weight.strides[0], weight.strides[1]};
  problem.bias = bias ? bias.data : nullptr;
  problem.bias_stride = bias ? bias.strides[0] : 1;
  return problem;
}

void linear_logp_forward(const ConstTensorView& hidden, const ConstTensorView& weight,
                         const ConstTensorView& targets, const ConstTensorView& bias,
                         const LogpOptions& options, const LogpOutputs& outputs,
                         const MatmulOptions& matmul_options, const ExecContext& context) {
  if (matmul_options.bias)
    throw Error(ErrorCode::kInvalidArgument, "bias",
                "is among the options of the product; must be the argument of linear_logp_forward");
  core::LinearLogpProblem problem =
      core::head_problem(hidden, weight, targets, bias, options, matmul_options.contract);
  core::set_outputs(problem.logp, hidden, outputs,
                    {{"hidden", hidden},
                     {"weight", weight},
                     {"targets", targets},
                     {"bias", bias},
                     {"temperature", options.row_temperature},
                     {"rows", options.rows}});
  core::check_workspace(context.workspace, {{"hidden", hidden},
                                            {"weight", weight},
                                            {"targets", targets},
                                            {"bias", bias},
                                            {"temperature", options.row_temperature},
                                            {"rows", options.rows},
                                            {"logp", outputs.logp},
                                            {"lse", outputs.lse},
                                            {"entropy", outputs.entropy},
                                            {"row_max", outputs.row_max},
                                            {"row_sum", outputs.row_sum},
                                            {"row_entropy_sum", outputs.row_entropy_sum}});
  if (core::on_device(problem.logp.device)) {
    const core::DeviceBackend& backend = core::pick_device_backend(problem.logp.device, context);
    if (problem.logp.rows > 0)
      backend.linear_logp_forward(problem, core::make_device_call(problem.logp.device, context, options));
    return;
  }
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  if (problem.logp.rows == 0) return;
  const std::size_t selection = core::selection_bytes(problem.logp, options);
  const core::Scratch scratch(context.workspace,
                              selection + backend.linear_logp_scratch_bytes(problem, executor.threads));
  core::select_rows(problem.logp, options, reinterpret_cast<std::uint64_t*>(scratch.data()));
  core::raise_on_invalid(problem.logp, options.on_invalid);
  executor.workspace = scratch.after(selection);
  backend.linear_logp_forward(problem, executor);
}

std::size_t linear_logp_workspace_bytes(const ConstTensorView& hidden, const ConstTensorView& weight,
                                        const ConstTensorView& targets, const ConstTensorView& bias,
                                        const LogpOptions& options, bool entropy, std::string_view contract,
                                        const ExecContext& context) {
  core::LinearLogpProblem problem = core::head_problem(hidden, weight, targets, bias, options, contract);
  std::uint64_t any = 0;
  if (entropy) problem.logp.row_entropy_sum = &any;
  if (core::on_device(problem.logp.device))
    return core::pick_device_backend(problem.logp.device, context)
        .linear_logp_scratch_bytes(problem, core::make_device_call(problem.logp.device, context, options));
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(
      core::selection_bytes(problem.logp, options) +
      backend.linear_logp_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
