#include "cli/twin.h"

#include <vector>

#include "core/product_checks.h"
#include "ref/logp.h"
#include "ref/matmul.h"

namespace samebits::cli {
namespace {

// A checked problem, and the bitmap of selected rows that it points into.
struct Problem {
  core::LogpProblem core;
  std::vector<std::uint64_t> selection;

  Problem(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options)
      : core(core::make_problem(logits, "logits", logits.shape[logits.rank - 1], "logits", targets, options)),
        selection(core::selection_words(core, options)) {
    core.logits = {logits.data, logits.dtype, core::RowIndex::of(logits, logits.rank - 1)};
    core::select_rows(core, options, selection.data());
    core::raise_on_invalid(core, options.on_invalid);
  }
};

template <class Void>
core::RowArray<Void> per_row(const BasicTensorView<Void>& view, int leading) {
  return {view.data, view.dtype, core::RowIndex::of(view, leading)};
}

}  // namespace

void twin_forward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                  const LogpOutputs& outputs) {
  Problem problem(logits, targets, options);
  core::set_outputs(problem.core, logits, outputs, {{"logits", logits}, {"targets", targets}});
  ref::logp_forward(problem.core);
}

void twin_backward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                   const LogpStats& stats, const LogpUpstream& upstream, const TensorView& grad_logits) {
  Problem problem(logits, targets, options);
  problem.core.saved_max = stats.row_max.data;
  problem.core.saved_sum = stats.row_sum.data;
  problem.core.saved_entropy_sum = stats.row_entropy_sum.data;
  problem.core.grad_logp = per_row(upstream.logp, upstream.logp.rank);
  problem.core.grad_lse = per_row(upstream.lse, upstream.lse.rank);
  problem.core.grad_entropy = per_row(upstream.entropy, upstream.entropy.rank);
  problem.core.grad_logits = per_row(grad_logits, grad_logits.rank - 1);
  ref::logp_backward(problem.core);
}

void twin_matmul(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
                 const MatmulOptions& options) {
  ref::matmul(core::product_problem(a, b, options.bias, options.contract == "tc16", out));
}

}  // namespace samebits::cli
