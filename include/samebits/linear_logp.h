// The gradient of log-probabilities fused with the LM head (the forward pass is linear_logp_forward in matmul.h), and
// the scratch of both.
//
// Determinism level: cross_device. Contracts: those of the forward pass; docs/contract.md, "Linear
// log-probability, backward".
#pragma once

#include <cstddef>
#include <string_view>

#include <samebits/context.h>
#include <samebits/logp.h>
#include <samebits/view.h>

namespace samebits {

/// What the backward pass writes. Gradients not given are not computed; one not wanted costs no product.
struct LinearLogpGradients {
  TensorView hidden;  ///< [..., H] like hidden, of its dtype, last stride 1; rows that take no part get +0
  TensorView weight;  ///< [V, H] like weight, of its dtype, last stride 1
  /// Instead of `weight`: [V, H] float32 (float64 for float64 operands), last stride 1, to which the gradient is
  /// added in one rounding each, before any rounding to the dtype of weight. Padding rows stay as they are.
  TensorView weight_accumulator;
  TensorView bias;  ///< [V] like bias, of its dtype, any stride
};

/// First-order gradients of linear_logp_forward with respect to hidden, weight and bias; the logits are recomputed
/// in parts and never stored whole.
///
/// Operands, `targets`, `options` and `contract` (MatmulOptions::contract) are those of the forward call; `stats` is
/// what it saved, `upstream` the gradients of its outputs, of any strides. Outputs share no memory with an input or
/// with each other. The bits depend on the rows that take part, in their order, and on nothing else: not on padding,
/// threads, or which gradients are asked for. Throws Error before anything is written.
///
/// `saved`: what linear_logp_forward of these arguments kept, if anything; it is read alone, and what it does not hold is
/// computed again. Without effect on a CPU and where `upstream` has an entropy.
///
/// Scratch: a part of the probabilities (at most 8192 x 8192 elements), 8 bytes per element of hidden for
/// grad_hidden, and for grad_weight one float per element of at most 8192 rows of hidden. On a GPU (positions are 32-bit
/// numbers, so hidden has fewer than 2^31 rows) for grad_weight one float per element of at most 8192 rows of weight too,
/// and nothing waits for the device unless OnInvalid::kRaise asks for it. There a buffer for grad_hidden holds other
/// numbers before it holds the gradient.
void linear_logp_backward(const ConstTensorView& hidden, const ConstTensorView& weight,
                          const ConstTensorView& targets, const ConstTensorView& bias,
                          const LogpOptions& options, const LogpStats& stats, const LogpUpstream& upstream,
                          const LinearLogpGradients& gradients, std::string_view contract = "auto",
                          const ExecContext& context = {}, const ConstTensorView& saved = {});

/// Bytes of ExecContext::workspace with which linear_logp_forward allocates nothing, for a call with these arguments;
/// `entropy`: the entropy or its sum is among the outputs; `saved_rows`: those of `saved`. Reads no element on a device.
/// Throws as the call does.
std::size_t linear_logp_workspace_bytes(const ConstTensorView& hidden, const ConstTensorView& weight,
                                        const ConstTensorView& targets, const ConstTensorView& bias,
                                        const LogpOptions& options, bool entropy,
                                        std::string_view contract = "auto", const ExecContext& context = {},
                                        std::int64_t saved_rows = 0);

/// The same of linear_logp_backward.
std::size_t linear_logp_backward_workspace_bytes(
    const ConstTensorView& hidden, const ConstTensorView& weight, const ConstTensorView& targets,
    const ConstTensorView& bias, const LogpOptions& options, const LinearLogpGradients& gradients,
    std::string_view contract = "auto", const ExecContext& context = {}, std::int64_t saved_rows = 0);

}  // namespace samebits
