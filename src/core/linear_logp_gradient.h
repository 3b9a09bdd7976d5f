// A linear_logp gradient after its arguments were checked: what a backend gets to see.
#pragma once

#include <string_view>

#include <samebits/logp.h>

#include "core/matmul_problem.h"

namespace samebits::core {

// `head.logp` holds the saved statistics and the upstreams. Gradients not wanted have null data.
struct LinearLogpGradient {
  LinearLogpProblem head = {};
  SavedP<const void> saved = {};    // what the forward pass wrote; a CPU computes it again
  std::int64_t weight_rows = 0;     // V with padding: rows of weight, entries of bias
  RowArray<void> grad_hidden = {};  // rows of the type of hidden, dense along H
  void* grad_weight = nullptr;      // (v, k) of the type of weight, or of the accumulator's, dense along k
  std::int64_t grad_weight_stride = 0;
  bool accumulate =
      false;  // add to grad_weight, which is float32 (float64 under fma64.v1), instead of writing it
  void* grad_bias = nullptr;  // [weight_rows] of the type of bias
  std::int64_t grad_bias_stride = 1;
};

// Checks hidden, weight, bias, targets, options and the name of the contract.
LinearLogpProblem head_problem(const ConstTensorView& hidden, const ConstTensorView& weight,
                               const ConstTensorView& targets, const ConstTensorView& bias,
                               const LogpOptions& options, std::string_view contract);

// Elements of a row of saved P.
constexpr std::int64_t saved_columns(std::int64_t vocab) { return (vocab + 63) / 64 * 64; }

// Checks that `saved` is what a forward pass of this call can have kept.
void check_saved(const ConstTensorView& saved, const LinearLogpProblem& head, const LogpOptions& options);

}  // namespace samebits::core
