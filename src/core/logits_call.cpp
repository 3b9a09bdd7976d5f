#include "core/logits_call.h"

#include "core/logp_checks.h"

namespace samebits::core {
namespace {

// A saved statistic: contiguous, one entry (or two words) per row.
const void* saved(const ConstTensorView& view, const char* name, DType dtype, std::int64_t count,
                  Device device) {
  if (!view)
    throw Error(ErrorCode::kInvalidArgument, name, "is missing; must be what the forward pass saved");
  if (view.dtype != dtype)
    throw Error(ErrorCode::kType, name,
                "is " + std::string(dtype_name(view.dtype)) + "; must be " + std::string(dtype_name(dtype)));
  check_memory(view, name, device);
  const ConstTensorView dense(view.data, view.dtype, std::span(view.shape.data(), view.rank));
  bool contiguous = view.numel() == count;
  for (int i = 0; i < view.rank; ++i)
    contiguous = contiguous && (view.shape[i] <= 1 || view.strides[i] == dense.strides[i]);
  if (!contiguous)
    throw Error(
        ErrorCode::kInvalidArgument, name,
        "has shape " + shape_text(view) + "; must be contiguous with " + std::to_string(count) + " elements");
  return view.data;
}

void set_upstream(const ConstTensorView& view, const char* name, const LogpProblem& problem,
                  const ConstTensorView& targets, RowArray<const void>& slot) {
  if (!view) return;
  const DType real = real_dtype(problem);
  if (view.dtype != real)
    throw Error(ErrorCode::kType, name,
                "is " + std::string(dtype_name(view.dtype)) + "; must be " + std::string(dtype_name(real)));
  check_memory(view, name, problem.device);
  bool same = view.rank == targets.rank;
  for (int i = 0; same && i < view.rank; ++i) same = view.shape[i] == targets.shape[i];
  if (!same)
    throw Error(
        ErrorCode::kInvalidArgument, name,
        "has shape " + shape_text(view) + "; must have the shape " + shape_text(targets) + " of targets");
  slot = {view.data, view.dtype, RowIndex::of(view, view.rank)};
}

}  // namespace

LogpProblem logits_problem(const ConstTensorView& logits, const ConstTensorView& targets,
                           const LogpOptions& options) {
  if (!logits) throw Error(ErrorCode::kInvalidArgument, "logits", "are missing");
  check_view(logits, "logits");
  const std::int64_t columns = logits.rank > 0 ? logits.shape[logits.rank - 1] : 0;
  LogpProblem problem = make_problem(logits, "logits", columns, "logits", targets, options);
  check_dense(logits, "logits");
  problem.logits = {logits.data, logits.dtype, RowIndex::of(logits, logits.rank - 1)};
  return problem;
}

void set_statistics(LogpProblem& problem, const LogpStats& stats, bool needs_entropy_sum) {
  const std::int64_t words = problem.rows * (problem.binary64 ? 2 : 1);
  problem.saved_max = saved(stats.row_max, "row_max", real_dtype(problem), problem.rows, problem.device);
  problem.saved_sum = saved(stats.row_sum, "row_sum", DType::kInt64, words, problem.device);
  if (needs_entropy_sum || stats.row_entropy_sum)
    problem.saved_entropy_sum =
        saved(stats.row_entropy_sum, "row_entropy_sum", DType::kInt64, words, problem.device);
}

void set_upstreams(LogpProblem& problem, const LogpUpstream& upstream, const ConstTensorView& targets) {
  set_upstream(upstream.logp, "grad_logp", problem, targets, problem.grad_logp);
  set_upstream(upstream.lse, "grad_lse", problem, targets, problem.grad_lse);
  set_upstream(upstream.entropy, "grad_entropy", problem, targets, problem.grad_entropy);
}

void check_like_logits(const TensorView& output, const char* name, DType dtype,
                       const ConstTensorView& logits) {
  if (!output) throw Error(ErrorCode::kInvalidArgument, name, "is missing");
  if (output.dtype != dtype)
    throw Error(ErrorCode::kType, name,
                "is " + std::string(dtype_name(output.dtype)) + "; must be " +
                    std::string(dtype_name(dtype)) + (dtype == logits.dtype ? ", the dtype of logits" : ""));
  bool same = output.rank == logits.rank;
  for (int i = 0; same && i < logits.rank; ++i) same = output.shape[i] == logits.shape[i];
  if (!same)
    throw Error(
        ErrorCode::kInvalidArgument, name,
        "has shape " + shape_text(output) + "; must have the shape " + shape_text(logits) + " of logits");
  check_dense(output, name);
  check_writable(output, name, logits.device);
}

std::size_t selection_bytes(const LogpProblem& problem, const LogpOptions& options) {
  return (selection_words(problem, options) * 8 + 63) / 64 * 64;
}

void run_rows(LogpProblem& problem, const LogpOptions& options, const ExecContext& context,
              std::size_t (*scratch_bytes)(const LogpProblem&, int),
              void (*entry)(const LogpProblem&, const Executor&)) {
  Executor executor = make_executor(context);
  if (problem.rows == 0) return;
  const std::size_t selection = selection_bytes(problem, options);
  const std::size_t needed = scratch_bytes == nullptr ? 0 : scratch_bytes(problem, executor.threads);
  const Scratch scratch(context.workspace, selection + needed);
  select_rows(problem, options, reinterpret_cast<std::uint64_t*>(scratch.data()));
  raise_on_invalid(problem, options.on_invalid);
  executor.workspace = scratch.after(selection);
  entry(problem, executor);
}

void run_rows_on_device(LogpProblem& problem, const LogpOptions& options, const ExecContext& context,
                        void (*DeviceBackend::*entry)(LogpProblem, const DeviceCall&)) {
  const DeviceBackend& backend = pick_device_backend(problem.device, context);
  if (problem.rows == 0) return;
  (backend.*entry)(problem, make_device_call(problem.device, context, options));
}

}  // namespace samebits::core
