// samebits::logp_forward and logp_backward: check, pick a backend, run.
#include <samebits/logp.h>

#include "core/logp_checks.h"

namespace samebits {
namespace {

using core::LogpProblem;

LogpProblem problem_of(const ConstTensorView& logits, const ConstTensorView& targets,
                       const LogpOptions& options) {
  if (!logits) throw Error(ErrorCode::kInvalidArgument, "logits", "are missing");
  core::check_view(logits, "logits");
  const std::int64_t columns = logits.rank > 0 ? logits.shape[logits.rank - 1] : 0;
  LogpProblem problem = core::make_problem(logits, "logits", columns, "logits", targets, options);
  core::check_dense(logits, "logits");
  problem.logits = {logits.data, logits.dtype, core::RowIndex::of(logits, logits.rank - 1)};
  return problem;
}

std::size_t align64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Fills in the row list, refuses invalid ids if asked to, and runs `entry` with its scratch.
void run(LogpProblem& problem, const LogpOptions& options, const ExecContext& context,
         const core::Backend& backend, void (*entry)(const LogpProblem&, const core::Executor&)) {
  core::Executor executor = core::make_executor(context);
  if (problem.rows == 0) return;
  const std::size_t selection = align64(core::selection_words(problem, options) * 8);
  const core::Scratch scratch(context.workspace,
                              selection + backend.logp_scratch_bytes(problem, executor.threads));
  core::select_rows(problem, options, reinterpret_cast<std::uint64_t*>(scratch.data()));
  core::raise_on_invalid(problem, options.on_invalid);
  executor.workspace = scratch.after(selection);
  entry(problem, executor);
}

void set_upstream(const ConstTensorView& view, const char* name, const LogpProblem& problem,
                  const ConstTensorView& targets, core::RowArray<const void>& slot) {
  if (!view) return;
  const DType real = problem.binary64 ? DType::kFloat64 : DType::kFloat32;
  if (view.dtype != real)
    throw Error(ErrorCode::kType, name,
                "is " + std::string(dtype_name(view.dtype)) + "; must be " + std::string(dtype_name(real)));
  core::check_memory(view, name);
  bool same = view.rank == targets.rank;
  for (int i = 0; same && i < view.rank; ++i) same = view.shape[i] == targets.shape[i];
  if (!same)
    throw Error(ErrorCode::kInvalidArgument, name,
                "has shape " + core::shape_text(view) + "; must have the shape " + core::shape_text(targets) +
                    " of targets");
  slot = {view.data, view.dtype, core::RowIndex::of(view, view.rank)};
}

// A saved statistic: contiguous, one entry (or two words) per row.
const void* saved(const ConstTensorView& view, const char* name, DType dtype, std::int64_t count) {
  if (!view)
    throw Error(ErrorCode::kInvalidArgument, name, "is missing; must be what the forward pass saved");
  if (view.dtype != dtype)
    throw Error(ErrorCode::kType, name,
                "is " + std::string(dtype_name(view.dtype)) + "; must be " + std::string(dtype_name(dtype)));
  core::check_memory(view, name);
  const ConstTensorView dense(view.data, view.dtype, std::span(view.shape.data(), view.rank));
  bool contiguous = view.numel() == count;
  for (int i = 0; i < view.rank; ++i)
    contiguous = contiguous && (view.shape[i] <= 1 || view.strides[i] == dense.strides[i]);
  if (!contiguous)
    throw Error(ErrorCode::kInvalidArgument, name,
                "has shape " + core::shape_text(view) + "; must be contiguous with " + std::to_string(count) +
                    " elements");
  return view.data;
}

}  // namespace

void logp_forward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                  const LogpOutputs& outputs, const ExecContext& context) {
  LogpProblem problem = problem_of(logits, targets, options);
  core::set_outputs(problem, logits, outputs,
                    {{"logits", logits},
                     {"targets", targets},
                     {"temperature", options.row_temperature},
                     {"rows", options.rows}});
  core::check_workspace(context.workspace, {{"logits", logits},
                                            {"targets", targets},
                                            {"temperature", options.row_temperature},
                                            {"rows", options.rows},
                                            {"logp", outputs.logp},
                                            {"lse", outputs.lse},
                                            {"entropy", outputs.entropy},
                                            {"row_max", outputs.row_max},
                                            {"row_sum", outputs.row_sum},
                                            {"row_entropy_sum", outputs.row_entropy_sum}});
  const core::Backend& backend = core::pick_backend(context.backend);
  run(problem, options, context, backend, backend.logp_forward);
}

void logp_backward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                   const LogpStats& stats, const LogpUpstream& upstream, const TensorView& grad_logits,
                   const ExecContext& context) {
  LogpProblem problem = problem_of(logits, targets, options);
  problem.keep_unselected = false;
  const DType real = problem.binary64 ? DType::kFloat64 : DType::kFloat32;
  const std::int64_t words = problem.rows * (problem.binary64 ? 2 : 1);
  problem.saved_max = saved(stats.row_max, "row_max", real, problem.rows);
  problem.saved_sum = saved(stats.row_sum, "row_sum", DType::kInt64, words);
  if (upstream.entropy || stats.row_entropy_sum)
    problem.saved_entropy_sum = saved(stats.row_entropy_sum, "row_entropy_sum", DType::kInt64, words);
  set_upstream(upstream.logp, "grad_logp", problem, targets, problem.grad_logp);
  set_upstream(upstream.lse, "grad_lse", problem, targets, problem.grad_lse);
  set_upstream(upstream.entropy, "grad_entropy", problem, targets, problem.grad_entropy);

  if (!grad_logits) throw Error(ErrorCode::kInvalidArgument, "grad_logits", "is missing");
  if (grad_logits.dtype != logits.dtype)
    throw Error(ErrorCode::kType, "grad_logits",
                "is " + std::string(dtype_name(grad_logits.dtype)) + "; must be " +
                    std::string(dtype_name(logits.dtype)) + ", the dtype of logits");
  bool same = grad_logits.rank == logits.rank;
  for (int i = 0; same && i < logits.rank; ++i) same = grad_logits.shape[i] == logits.shape[i];
  if (!same)
    throw Error(ErrorCode::kInvalidArgument, "grad_logits",
                "has shape " + core::shape_text(grad_logits) + "; must have the shape " +
                    core::shape_text(logits) + " of logits");
  core::check_dense(grad_logits, "grad_logits");
  core::check_writable(grad_logits, "grad_logits");
  const std::pair<const char*, ConstTensorView> inputs[] = {{"logits", logits},
                                                            {"targets", targets},
                                                            {"temperature", options.row_temperature},
                                                            {"rows", options.rows},
                                                            {"row_max", stats.row_max},
                                                            {"row_sum", stats.row_sum},
                                                            {"row_entropy_sum", stats.row_entropy_sum},
                                                            {"grad_logp", upstream.logp},
                                                            {"grad_lse", upstream.lse},
                                                            {"grad_entropy", upstream.entropy}};
  for (const auto& [name, input] : inputs)
    if (input) {
      core::check_no_overlap(grad_logits, "grad_logits", input, name);
      core::check_workspace(context.workspace, {{name, input}});
    }
  core::check_workspace(context.workspace, {{"grad_logits", grad_logits}});
  problem.grad_logits = {grad_logits.data, grad_logits.dtype,
                         core::RowIndex::of(grad_logits, grad_logits.rank - 1)};

  const core::Backend& backend = core::pick_backend(context.backend);
  run(problem, options, context, backend, backend.logp_backward);
}

std::size_t logp_workspace_bytes(const ConstTensorView& logits, const LogpOptions& options,
                                 const ExecContext& context) {
  core::check_view(logits, "logits");
  LogpProblem problem;
  problem.columns = logits.rank > 0 ? logits.shape[logits.rank - 1] : 0;
  problem.vocab = options.vocab_size.value_or(problem.columns);
  problem.rows = problem.columns > 0 ? logits.numel() / problem.columns : 0;
  problem.dtype = logits.dtype;
  problem.binary64 = logits.dtype == DType::kFloat64 || options.precision == Precision::kFloat64;
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(align64(core::selection_words(problem, options) * 8) +
                               backend.logp_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
