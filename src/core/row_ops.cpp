// samebits::probability and row_sum: check, pick a backend, run.
#include <samebits/row_ops.h>

#include "core/logits_call.h"
#include "core/logp_checks.h"

namespace samebits {
namespace {

constexpr std::int64_t kMaxColumns = std::int64_t{1} << 22;

core::RowSumProblem row_sum_problem(const ConstTensorView& values) {
  if (!values) throw Error(ErrorCode::kInvalidArgument, "values", "are missing");
  core::check_view(values, "values");
  if (values.dtype != DType::kFloat32 && values.dtype != DType::kFloat64)
    throw Error(ErrorCode::kType, "values",
                "is " + std::string(dtype_name(values.dtype)) + "; must be float32 or float64");
  if (values.rank < 1)
    throw Error(ErrorCode::kInvalidArgument, "values", "has no axis; must have at least one");
  core::RowSumProblem problem;
  problem.device = values.device;
  problem.columns = values.shape[values.rank - 1];
  if (problem.columns > kMaxColumns)
    throw Error(ErrorCode::kInvalidArgument, "values",
                "has " + std::to_string(problem.columns) + " columns; may have at most " +
                    std::to_string(kMaxColumns));
  problem.rows = 1;
  for (int i = 0; i + 1 < values.rank; ++i) problem.rows *= values.shape[i];
  problem.dtype = values.dtype;
  problem.values = {values.data, values.dtype, core::RowIndex::of(values, values.rank - 1)};
  return problem;
}

void check_sums(const TensorView& sums, const ConstTensorView& values) {
  if (!sums) throw Error(ErrorCode::kInvalidArgument, "sums", "is missing");
  if (sums.dtype != values.dtype)
    throw Error(ErrorCode::kType, "sums",
                "is " + std::string(dtype_name(sums.dtype)) + "; must be " +
                    std::string(dtype_name(values.dtype)) + ", the dtype of values");
  bool same = sums.rank == values.rank - 1;
  for (int i = 0; same && i < sums.rank; ++i) same = sums.shape[i] == values.shape[i];
  if (!same)
    throw Error(ErrorCode::kInvalidArgument, "sums",
                "has shape " + core::shape_text(sums) + "; must have the leading shape of values " +
                    core::shape_text(values));
  core::check_writable(sums, "sums", values.device);
  core::check_no_overlap(sums, "sums", values, "values");
}

}  // namespace

void probability(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                 const LogpStats& stats, const TensorView& probabilities, const ExecContext& context) {
  core::LogpProblem problem = core::logits_problem(logits, targets, options);
  problem.keep_unselected = false;
  core::set_statistics(problem, {stats.row_max, stats.row_sum, {}}, false);
  core::check_like_logits(probabilities, "probabilities", core::real_dtype(problem), logits);
  const std::pair<const char*, ConstTensorView> inputs[] = {
      {"logits", logits},     {"targets", targets},       {"temperature", options.row_temperature},
      {"rows", options.rows}, {"row_max", stats.row_max}, {"row_sum", stats.row_sum}};
  for (const auto& [name, input] : inputs)
    if (input) {
      core::check_no_overlap(probabilities, "probabilities", input, name);
      core::check_workspace(context.workspace, {{name, input}});
    }
  core::check_workspace(context.workspace, {{"probabilities", probabilities}});
  problem.probabilities = {probabilities.data, probabilities.dtype,
                           core::RowIndex::of(probabilities, probabilities.rank - 1)};

  if (core::on_device(problem.device))
    return core::run_rows_on_device(problem, options, context, &core::DeviceBackend::probability);
  const core::Backend& backend = core::pick_backend(context.backend);
  core::run_rows(problem, options, context, nullptr, backend.probability);
}

void row_sum(const ConstTensorView& values, const TensorView& sums, const ExecContext& context) {
  core::RowSumProblem problem = row_sum_problem(values);
  core::check_dense(values, "values");
  core::check_memory(values, "values", values.device);
  check_sums(sums, values);
  core::check_workspace(context.workspace, {{"values", values}, {"sums", sums}});
  problem.sums = {sums.data, sums.dtype, core::RowIndex::of(sums, sums.rank)};

  if (core::on_device(problem.device)) {
    const core::DeviceBackend& backend = core::pick_device_backend(problem.device, context);
    if (problem.rows > 0) backend.row_sum(problem, core::make_device_call(problem.device, context));
    return;
  }
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  if (problem.rows == 0) return;
  const core::Scratch scratch(context.workspace, backend.row_sum_scratch_bytes(problem, executor.threads));
  executor.workspace = scratch.after(0);
  backend.row_sum(problem, executor);
}

std::size_t row_sum_workspace_bytes(const ConstTensorView& values, const ExecContext& context) {
  const core::RowSumProblem problem = row_sum_problem(values);
  if (problem.rows == 0) return 0;
  if (core::on_device(problem.device))
    return core::pick_device_backend(problem.device, context)
        .row_sum_scratch_bytes(problem, core::make_device_call(problem.device, context));
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(backend.row_sum_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
