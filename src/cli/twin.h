// The scalar twin of src/ref behind the library's interface: a second opinion that shares no kernel with it.
#pragma once

#include <samebits/logp.h>
#include <samebits/matmul.h>

namespace samebits::cli {

/// As samebits::logp_forward; logits are at most two-dimensional.
void twin_forward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                  const LogpOutputs& outputs);

/// As samebits::logp_backward, for dense contiguous arguments that are all given; nothing but semantics is checked.
void twin_backward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                   const LogpStats& stats, const LogpUpstream& upstream, const TensorView& grad_logits);

/// As samebits::matmul with the contract "fma" or "tc16", for matrices whose last axis of `out` is dense; nothing is
/// checked.
void twin_matmul(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
                 const MatmulOptions& options);

}  // namespace samebits::cli
