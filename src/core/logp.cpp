// samebits::logp_forward and logp_backward: check, pick a backend, run.
#include <samebits/logp.h>

#include "core/logits_call.h"
#include "core/logp_checks.h"

namespace samebits {

using core::LogpProblem;

void logp_forward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                  const LogpOutputs& outputs, const ExecContext& context) {
  LogpProblem problem = core::logits_problem(logits, targets, options);
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
  if (core::on_device(problem.device))
    return core::run_rows_on_device(problem, options, context, &core::DeviceBackend::logp_forward);
  const core::Backend& backend = core::pick_backend(context.backend);
  core::run_rows(problem, options, context, backend.logp_scratch_bytes, backend.logp_forward);
}

void logp_backward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                   const LogpStats& stats, const LogpUpstream& upstream, const TensorView& grad_logits,
                   const ExecContext& context) {
  LogpProblem problem = core::logits_problem(logits, targets, options);
  problem.keep_unselected = false;
  core::set_statistics(problem, stats, bool{upstream.entropy});
  core::set_upstreams(problem, upstream, targets);

  core::check_like_logits(grad_logits, "grad_logits", logits.dtype, logits);
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

  if (core::on_device(problem.device))
    return core::run_rows_on_device(problem, options, context, &core::DeviceBackend::logp_backward);
  const core::Backend& backend = core::pick_backend(context.backend);
  core::run_rows(problem, options, context, backend.logp_scratch_bytes, backend.logp_backward);
}

std::size_t logp_workspace_bytes(const ConstTensorView& logits, const LogpOptions& options,
                                 const ExecContext& context) {
  core::check_view(logits, "logits");
  LogpProblem problem;
  problem.device = logits.device;
  problem.columns = logits.rank > 0 ? logits.shape[logits.rank - 1] : 0;
  problem.vocab = options.vocab_size.value_or(problem.columns);
  problem.rows = problem.columns > 0 ? logits.numel() / problem.columns : 0;
  problem.dtype = logits.dtype;
  problem.binary64 = logits.dtype == DType::kFloat64 || options.precision == Precision::kFloat64;
  if (core::on_device(problem.device)) {
    const core::DeviceCall call = core::make_device_call(problem.device, context, options);
    return core::pick_device_backend(problem.device, context).logp_scratch_bytes(problem, call);
  }
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(core::selection_bytes(problem, options) +
                               backend.logp_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
