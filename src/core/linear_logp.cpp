// samebits::linear_logp_forward: check, pick a backend, run.
#include <algorithm>

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
  core::check_depth(weight, "weight", weight.shape[1], core::kMostHidden);
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

[[noreturn]] void refuse_saved(const std::string& why) {
  throw Error(ErrorCode::kUnsupported, "saved", "has rows " + why + "; may have none there");
}

// P is kept where it does not depend on the upstream and a forward kernel can write it on its way.
void check_keeps(const core::LinearLogpProblem& head) {
  if (!core::on_device(head.logp.device)) refuse_saved("on a CPU, which keeps nothing");
  if (head.logp.wants_entropy()) refuse_saved("beside an entropy, with which P depends on the upstream");
  if (head.logp.row_max == nullptr || head.logp.row_sum == nullptr)
    refuse_saved("without row_max and row_sum, which its use needs");
}

}  // namespace

void core::check_saved(const ConstTensorView& saved, const LinearLogpProblem& head,
                       const LogpOptions& options) {
  check_memory(saved, "saved", head.logp.device);
  check_same_dtype(saved, "saved", head.hidden.dtype, "weight");
  const std::int64_t columns = saved_columns(head.logp.vocab);
  const std::int64_t most = options.rows ? std::min(head.logp.rows, options.rows.shape[0]) : head.logp.rows;
  if (saved.rank != 2 || saved.shape[1] != columns || saved.shape[0] > most)
    throw Error(ErrorCode::kInvalidArgument, "saved",
                "has shape " + shape_text(saved) + "; must be [at most " + std::to_string(most) + ", " +
                    std::to_string(columns) + "], rows that take part and columns of the vocabulary");
  if (saved.shape[0] == 0) return;
  if (!head.tc16 || head.hidden.dtype != DType::kBFloat16)
    refuse_saved("with " + name_of(head.hidden.dtype) + " operands under " + (head.tc16 ? "tc16" : "fma") +
                 "; P is kept for bfloat16 under tc16");
  const bool dense = saved.strides[1] == 1 && (saved.shape[0] == 1 || saved.strides[0] == columns);
  const bool aligned = !on_device(saved.device) || reinterpret_cast<std::uintptr_t>(saved.data) % 128 == 0;
  if (!dense || !aligned)
    throw Error(ErrorCode::kInvalidArgument, "saved",
                std::string(dense ? "is not aligned to 128 bytes" : "is strided") +
                    "; must be contiguous and aligned to 128 bytes");
}

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
                         const MatmulOptions& matmul_options, const ExecContext& context,
                         const TensorView& saved) {
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
  if (saved) {
    core::check_saved(saved, problem, options);
    problem.saved = {saved.data, saved.shape[0], core::saved_columns(problem.logp.vocab)};
  }
  if (problem.saved.rows > 0) check_keeps(problem);
  const std::pair<const char*, ConstTensorView> operands[] = {{"hidden", hidden},
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
                                                              {"row_entropy_sum", outputs.row_entropy_sum}};
  for (const auto& [name, operand] : operands) {
    if (saved && operand) core::check_no_overlap(saved, "saved", operand, name);
    core::check_workspace(context.workspace, {{name, operand}});
  }
  core::check_workspace(context.workspace, {{"saved", saved}});
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
                                        const ExecContext& context, std::int64_t saved_rows) {
  core::LinearLogpProblem problem = core::head_problem(hidden, weight, targets, bias, options, contract);
  problem.saved = {nullptr, saved_rows, core::saved_columns(problem.logp.vocab)};
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
