// samebits::matmul and linear_logp_forward: check, pick a backend, run.
#include <samebits/matmul.h>

#include "core/linear_logp_gradient.h"
#include "core/logp_checks.h"
#include "core/matmul_problem.h"

namespace samebits {
namespace {

using core::shape_text;

std::string name_of(DType dtype) { return std::string(dtype_name(dtype)); }

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Whether `contract` means tc16 for operands of `dtype`; throws where it means nothing.
bool check_contract(std::string_view contract, DType dtype) {
  const std::string quoted = "'" + std::string(contract) + "'";
  if (contract != "auto" && contract != "fma" && contract != "tc16")
    throw Error(ErrorCode::kInvalidArgument, "contract", "is " + quoted + "; may be 'auto', 'fma' or 'tc16'");
  if (contract == "tc16" && !is_half(dtype))
    throw Error(ErrorCode::kInvalidArgument, "contract",
                "is 'tc16' with " + name_of(dtype) +
                    " operands; tc16 takes bfloat16 or float16, may be 'auto' or 'fma'");
  return contract != "fma" && is_half(dtype);
}

void check_operand(const ConstTensorView& view, const char* name) {
  if (!view) throw Error(ErrorCode::kInvalidArgument, name, "is missing");
  core::check_view(view, name);
  if (!is_floating(view.dtype))
    throw Error(ErrorCode::kType, name,
                "is " + name_of(view.dtype) + "; must be float32, bfloat16, float16 or float64");
}

void check_matrix(const ConstTensorView& view, const char* name, const char* axes) {
  check_operand(view, name);
  if (view.rank != 2)
    throw Error(ErrorCode::kInvalidArgument, name,
                "has shape " + shape_text(view) + "; must be a matrix " + std::string(axes));
  core::check_memory(view, name);
}

void check_same_dtype(const ConstTensorView& view, const char* name, DType dtype, const char* other) {
  if (view.dtype != dtype)
    throw Error(ErrorCode::kType, name,
                "is " + name_of(view.dtype) + "; must be " + name_of(dtype) + " like " + other);
}

void check_product_output(const TensorView& out, const ConstTensorView& a, const ConstTensorView& b) {
  if (!out) throw Error(ErrorCode::kInvalidArgument, "out", "is missing");
  if (out.dtype != a.dtype && !(is_half(a.dtype) && out.dtype == DType::kFloat32))
    throw Error(ErrorCode::kType, "out",
                "is " + name_of(out.dtype) + "; must be " + name_of(a.dtype) +
                    (is_half(a.dtype) ? " or float32" : ""));
  if (out.rank != 2 || out.shape[0] != a.shape[0] || out.shape[1] != b.shape[1])
    throw Error(ErrorCode::kInvalidArgument, "out",
                "has shape " + shape_text(out) + "; must be [" + std::to_string(a.shape[0]) + ", " +
                    std::to_string(b.shape[1]) + "] for a " + shape_text(a) + " and b " + shape_text(b));
  core::check_dense(out, "out");
  core::check_writable(out, "out");
  core::check_no_overlap(out, "out", a, "a");
  core::check_no_overlap(out, "out", b, "b");
}

// One entry for each of the `count` columns of the product.
void check_bias(const ConstTensorView& bias, std::int64_t count, DType dtype, const TensorView& out) {
  if (!bias) return;
  check_same_dtype(bias, "bias", dtype, "a");
  if (bias.rank != 1 || bias.shape[0] != count)
    throw Error(ErrorCode::kInvalidArgument, "bias",
                "has shape " + shape_text(bias) + "; must be [" + std::to_string(count) +
                    "], one entry per column of b");
  core::check_memory(bias, "bias");
  core::check_no_overlap(out, "out", bias, "bias");
}

// Hidden states against the head's weight; a mistake here is most often a matrix in the wrong place.
void check_head(const ConstTensorView& hidden, const ConstTensorView& weight, const ConstTensorView& bias) {
  check_operand(hidden, "hidden");
  check_matrix(weight, "weight", "[vocab, hidden]");
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
  core::check_memory(bias, "bias");
}

}  // namespace

core::LinearLogpProblem core::head_problem(const ConstTensorView& hidden, const ConstTensorView& weight,
                                           const ConstTensorView& targets, const ConstTensorView& bias,
                                           const LogpOptions& options, std::string_view contract) {
  check_head(hidden, weight, bias);
  const bool tc16 = check_contract(contract, hidden.dtype);
  if (options.precision == Precision::kFloat64 && hidden.dtype != DType::kFloat64)
    throw Error(ErrorCode::kUnsupported, "precision",
                "is 'fp64' with " + name_of(hidden.dtype) +
                    " operands; linear_logp normalises in float64 for float64 operands alone");
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

void matmul(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
            const MatmulOptions& options, const ExecContext& context) {
  check_matrix(a, "a", "[M, K]");
  check_matrix(b, "b", "[K, N]");
  check_same_dtype(b, "b", a.dtype, "a");
  const bool tc16 = check_contract(options.contract, a.dtype);
  if (a.shape[1] != b.shape[0])
    throw Error(ErrorCode::kInvalidArgument, "b",
                "has shape " + shape_text(b) + " and a has shape " + shape_text(a) + "; b must have " +
                    std::to_string(a.shape[1]) + " rows, as many as a has columns");
  check_product_output(out, a, b);
  check_bias(options.bias, b.shape[1], a.dtype, out);
  core::check_workspace(context.workspace, {{"a", a}, {"b", b}, {"out", out}, {"bias", options.bias}});

  core::MatmulProblem problem;
  problem.rows = a.shape[0];
  problem.columns = b.shape[1];
  problem.depth = a.shape[1];
  problem.dtype = a.dtype;
  problem.tc16 = tc16;
  problem.out_dtype = out.dtype;
  problem.a = {a.data, a.strides[0], a.strides[1]};
  problem.b = {b.data, b.strides[0], b.strides[1]};
  problem.out = out.data;
  problem.out_row_stride = out.strides[0];
  problem.bias = options.bias.data;
  problem.bias_stride = options.bias.strides[0];
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  if (problem.rows == 0 || problem.columns == 0) return;
  const core::Scratch scratch(context.workspace, backend.matmul_scratch_bytes(problem, executor.threads));
  executor.workspace = scratch.after(0);
  backend.matmul(problem, executor);
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
                                            {"entropy", outputs.entropy}});
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  if (problem.logp.rows == 0) return;
  const std::size_t selection = (core::selection_words(problem.logp, options) * 8 + 63) / 64 * 64;
  const core::Scratch scratch(context.workspace,
                              selection + backend.linear_logp_scratch_bytes(problem, executor.threads));
  core::select_rows(problem.logp, options, reinterpret_cast<std::uint64_t*>(scratch.data()));
  core::raise_on_invalid(problem.logp, options.on_invalid);
  executor.workspace = scratch.after(selection);
  backend.linear_logp_forward(problem, executor);
}

}  // namespace samebits
