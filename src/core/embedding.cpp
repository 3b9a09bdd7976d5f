// samebits::embedding_forward and embedding_backward: check, pick a backend, run.
#include <samebits/embedding.h>

#include "core/backend.h"
#include "core/device_backend.h"
#include "core/logp_checks.h"

namespace samebits {
namespace {

using core::EmbeddingProblem;
using core::shape_text;

constexpr std::int64_t kMostIds = std::int64_t{1} << 31;

std::string name_of(DType dtype) { return std::string(dtype_name(dtype)); }

[[noreturn]] void invalid(const char* name, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, name, reason);
}

void check_dtype(const BasicTensorView<const void>& view, const char* name, DType dtype, const char* like) {
  if (view.dtype != dtype)
    throw Error(ErrorCode::kType, name, "is " + name_of(view.dtype) + "; must be " + name_of(dtype) + like);
}

// Checks a floating operand and what is the same in both directions.
EmbeddingProblem problem_of(const ConstTensorView& ids, const ConstTensorView& values, const char* name) {
  if (!ids) invalid("ids", "are missing");
  core::check_view(ids, "ids");
  if (ids.dtype != DType::kInt32 && ids.dtype != DType::kInt64)
    throw Error(ErrorCode::kType, "ids", "is " + name_of(ids.dtype) + "; may be int32 or int64");
  if (ids.rank == kMaxRank) invalid("ids", "has 8 dimensions; may have 0 to 7");
  if (!values) invalid(name, "is missing");
  core::check_view(values, name);
  if (!is_floating(values.dtype))
    throw Error(ErrorCode::kType, name,
                "is " + name_of(values.dtype) + "; may be float32, bfloat16, float16 or float64");
  core::check_memory(values, name, values.device);
  core::check_memory(ids, "ids", values.device);
  EmbeddingProblem problem;
  problem.device = values.device;
  problem.rows = ids.numel();
  problem.dtype = values.dtype;
  problem.ids = {ids.data, ids.dtype, core::RowIndex::of(ids, ids.rank)};
  return problem;
}

void check_table(const ConstTensorView& table, const char* name) {
  if (table.rank != 2) invalid(name, "has shape " + shape_text(table) + "; must be a matrix [V, H]");
  if (table.shape[0] == 0 || table.shape[1] == 0)
    invalid(name, "has shape " + shape_text(table) + "; must have at least one row and one column");
}

// `view` has the shape of ids followed by the columns of the table.
void check_rows(const ConstTensorView& view, const char* name, const ConstTensorView& ids,
                std::int64_t columns) {
  bool same = view.rank == ids.rank + 1 && view.shape[ids.rank] == columns;
  for (int i = 0; same && i < ids.rank; ++i) same = view.shape[i] == ids.shape[i];
  if (same) return;
  ConstTensorView wanted = ids;
  wanted.shape[wanted.rank++] = columns;
  invalid(name, "has shape " + shape_text(view) + "; must be " + shape_text(wanted) + " for ids " +
                    shape_text(ids) + " and a table of " + std::to_string(columns) + " columns");
}

void set_padding(EmbeddingProblem& problem, const EmbeddingOptions& options) {
  if (!options.padding_idx) return;
  core::check_padding_idx(*options.padding_idx, problem.vocab);
  problem.has_padding = true;
  problem.padding = *options.padding_idx;
}

core::RowArray<void> rows_of(const TensorView& view) {
  return {view.data, view.dtype, core::RowIndex::of(view, view.rank - 1)};
}

// Everything of a gradient but the memory it is written to.
EmbeddingProblem gradient_problem(const ConstTensorView& ids, const ConstTensorView& grad,
                                  const EmbeddingGradients& gradients, const EmbeddingOptions& options) {
  EmbeddingProblem problem = problem_of(ids, grad, "grad");
  if (problem.rows > kMostIds)
    invalid("ids", "are " + std::to_string(problem.rows) + "; may be at most 2147483648");
  problem.accumulate = bool{gradients.weight_accumulator};
  if (problem.accumulate && gradients.weight)
    invalid("grad_accumulator", "is given beside grad_weight; may be one of the two");
  const char* name = problem.accumulate ? "grad_accumulator" : "grad_weight";
  const TensorView& out = problem.accumulate ? gradients.weight_accumulator : gradients.weight;
  if (!out) invalid(name, "is missing");
  core::check_view(out, name);
  check_table(out, name);
  const DType wide = grad.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  check_dtype(out, name, problem.accumulate ? wide : grad.dtype,
              problem.accumulate ? "" : ", the dtype of grad");
  core::check_dense(out, name);
  check_rows(grad, "grad", ids, out.shape[1]);
  problem.vocab = out.shape[0];
  problem.columns = out.shape[1];
  set_padding(problem, options);
  problem.grad = {grad.data, grad.dtype, core::RowIndex::of(grad, grad.rank - 1)};
  problem.grad_stride = grad.strides[grad.rank - 1];
  problem.grad_weight = out.data;
  problem.grad_weight_stride = out.strides[0];
  return problem;
}

}  // namespace

void core::check_padding_idx(std::int64_t padding_idx, std::int64_t vocab) {
  if (padding_idx < 0 || padding_idx >= vocab)
    invalid("padding_idx", "is " + std::to_string(padding_idx) + "; may be 0 to " +
                               std::to_string(vocab - 1) + ", a row of the table");
}

void core::raise_invalid_id(const EmbeddingProblem& problem, std::int64_t row, std::int64_t id) {
  invalid("ids", "has id " + std::to_string(id) + " at position " + std::to_string(row) +
                     "; ids must be within [0, " + std::to_string(problem.vocab) + ")");
}

void embedding_forward(const ConstTensorView& ids, const ConstTensorView& weight, const TensorView& out,
                       const EmbeddingOptions& options, const ExecContext& context) {
  EmbeddingProblem problem = problem_of(ids, weight, "weight");
  check_table(weight, "weight");
  problem.vocab = weight.shape[0];
  problem.columns = weight.shape[1];
  set_padding(problem, options);
  problem.weight = {weight.data, weight.strides[0], weight.strides[1]};
  problem.nan_on_invalid = options.on_invalid == OnInvalid::kNan;
  if (!out) invalid("out", "is missing");
  check_dtype(out, "out", weight.dtype, ", the dtype of weight");
  core::check_view(out, "out");
  check_rows(out, "out", ids, problem.columns);
  core::check_dense(out, "out");
  core::check_writable(out, "out", problem.device);
  core::check_no_overlap(out, "out", ids, "ids");
  core::check_no_overlap(out, "out", weight, "weight");
  core::check_workspace(context.workspace, {{"ids", ids}, {"weight", weight}, {"out", out}});
  problem.out = rows_of(out);

  if (core::on_device(problem.device)) {
    const core::DeviceBackend& backend = core::pick_device_backend(problem.device, context);
    core::DeviceCall call = core::make_device_call(problem.device, context);
    call.raise_on_invalid = options.on_invalid == OnInvalid::kRaise;
    if (problem.rows > 0) backend.embedding_forward(problem, call);
    return;
  }
  const core::Backend& backend = core::pick_backend(context.backend);
  const core::Executor executor = core::make_executor(context);
  for (std::int64_t row = 0; options.on_invalid == OnInvalid::kRaise && row < problem.rows; ++row)
    if (!problem.valid(problem.id(row))) core::raise_invalid_id(problem, row, problem.id(row));
  backend.embedding_forward(problem, executor);
}

void embedding_backward(const ConstTensorView& ids, const ConstTensorView& grad,
                        const EmbeddingGradients& gradients, const EmbeddingOptions& options,
                        const ExecContext& context) {
  const EmbeddingProblem problem = gradient_problem(ids, grad, gradients, options);
  const char* name = problem.accumulate ? "grad_accumulator" : "grad_weight";
  const TensorView& out = problem.accumulate ? gradients.weight_accumulator : gradients.weight;
  core::check_writable(out, name, problem.device);
  core::check_no_overlap(out, name, ids, "ids");
  core::check_no_overlap(out, name, grad, "grad");
  core::check_workspace(context.workspace, {{"ids", ids}, {"grad", grad}, {name, out}});

  if (core::on_device(problem.device))
    return core::pick_device_backend(problem.device, context)
        .embedding_backward(problem, core::make_device_call(problem.device, context));
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  const core::Scratch scratch(context.workspace,
                              backend.embedding_backward_scratch_bytes(problem, executor.threads));
  executor.workspace = scratch.after(0);
  backend.embedding_backward(problem, executor);
}

std::size_t embedding_backward_workspace_bytes(const ConstTensorView& ids, const ConstTensorView& grad,
                                               const EmbeddingGradients& gradients,
                                               const EmbeddingOptions& options, const ExecContext& context) {
  const EmbeddingProblem problem = gradient_problem(ids, grad, gradients, options);
  if (core::on_device(problem.device))
    return core::pick_device_backend(problem.device, context)
        .embedding_backward_scratch_bytes(problem, core::make_device_call(problem.device, context));
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(
      backend.embedding_backward_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
