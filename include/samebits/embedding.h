// Lookup of embedding rows, and the gradient of the table they come from.
//
// Determinism level: cross_device. Contracts: embedding.v1, and embedding64.v1 for a float64 table (docs/contract.md,
// "Embedding"). A looked-up row is the table's row bit for bit. The bits of a row of the gradient depend on the upstream
// of the positions with its id, in their order, and on nothing else: not on other ids, the backend or the number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <samebits/context.h>
#include <samebits/logp.h>
#include <samebits/view.h>

namespace samebits {

/// Meaning of an embedding call.
struct EmbeddingOptions {
  /// An id, 0 to V - 1, that takes no part in the gradient. It is looked up like any other.
  std::optional<std::int64_t> padding_idx = std::nullopt;
  /// What the row of an id outside [0, V) is: +0 everywhere, NaN everywhere, or an Error naming the first such
  /// position, which waits for the device. Such an id never takes part in the gradient.
  OnInvalid on_invalid = OnInvalid::kNan;
};

/// `out[..., :] = weight[ids[...], :]`.
///
/// `ids` [...] int32 or int64, at most 7 dimensions. `weight` [V, H] float32, bfloat16, float16 or float64. Both of any
/// strides. `out` [..., H] of the dtype of weight, last stride 1, shares no memory with them. Throws Error before
/// anything is written.
void embedding_forward(const ConstTensorView& ids, const ConstTensorView& weight, const TensorView& out,
                       const EmbeddingOptions& options = {}, const ExecContext& context = {});

/// What the backward pass writes: one of the two.
struct EmbeddingGradients {
  TensorView weight;  ///< [V, H] of the dtype of grad, last stride 1; rows that no id refers to get +0
  /// [V, H] float32 (float64 for a float64 grad), last stride 1, to which the gradient is added in one rounding, before
  /// any rounding to the dtype of grad. Rows that no id refers to stay as they are.
  TensorView weight_accumulator;
};

/// The gradient of `weight`: for each id the sum of `grad` over its positions, ascending, in float32 (float64 for
/// float64), in segments of 1024 positions, each from +0 and added from +0; then rounded once.
///
/// `ids` [...] are those of the lookup, at most 2^31 of them, `grad` [..., H] is the upstream of its result; both of any
/// strides. Outputs share no memory with an input. Throws Error before anything is written.
/// Scratch: the ids in sorted order (about 24 bytes an id on a GPU, 8 on a CPU), 8 bytes a row of the table, and one row
/// of sums for every 64 ids (512 on a CPU) for those that occur often; taken from `context.workspace` when it is
/// large enough (embedding_backward_workspace_bytes).
void embedding_backward(const ConstTensorView& ids, const ConstTensorView& grad,
                        const EmbeddingGradients& gradients, const EmbeddingOptions& options = {},
                        const ExecContext& context = {});

/// Scratch bytes of that call.
std::size_t embedding_backward_workspace_bytes(const ConstTensorView& ids, const ConstTensorView& grad,
                                               const EmbeddingGradients& gradients,
                                               const EmbeddingOptions& options = {},
                                               const ExecContext& context = {});

}  // namespace samebits
