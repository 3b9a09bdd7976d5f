// Selected-token log-probabilities from logits: forward and first-order backward.
//
// Determinism level: cross_device. Contract: row.v1 (fp32, bf16, fp16) and row64.v1 (fp64, or
// Precision::kFloat64). The bits of a row depend on that row's logits, target, temperature and vocab_size
// alone: never on the batch, the strides, the backend or the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <samebits/context.h>
#include <samebits/view.h>

namespace samebits {

/// What an id outside [0, vocab) that is not `ignore_index` gives.
enum class OnInvalid : std::uint8_t {
  kZero,   ///< logp 0, lse -inf, entropy 0, zero gradient (padding)
  kNan,    ///< logp, lse and entropy NaN, zero gradient
  kRaise,  ///< an Error naming the first bad position, before anything is written
};

/// Width of the normalisation.
enum class Precision : std::uint8_t {
  kFromLogits,  ///< fp64 logits: row64.v1; everything else: row.v1
  kFloat64,     ///< row64.v1 whatever the dtype of the logits
};

/// Meaning of a logp call. Everything here is part of the result's identity (see Plan::provenance_json).
struct LogpOptions {
  /// Logits are multiplied by RN(1 / temperature) before normalisation. Finite, within [2^-64, 2^64].
  double temperature = 1.0;
  /// Optional per-row temperature, float32 or float64, of the leading shape (or one row list [rows]);
  /// replaces `temperature`. A value that is not allowed raises.
  ConstTensorView row_temperature = {};
  /// Optional 1-D list of row numbers (int32 or int64) into the flattened leading shape. Duplicates are
  /// idempotent, numbers outside [0, rows) are ignored. Rows not listed take the zero form.
  ConstTensorView rows = {};
  /// With `rows`: leave the outputs of rows not listed as they are instead of writing the zero form.
  bool keep_unselected = false;
  /// An id that always takes the zero form, even when it lies inside the vocabulary.
  std::optional<std::int64_t> ignore_index = std::nullopt;
  OnInvalid on_invalid = OnInvalid::kZero;  ///< see OnInvalid
  /// True vocabulary size, 1 to the last extent of the logits (default). Columns beyond it are padding:
  /// never read, gradient +0. At most 2^22.
  std::optional<std::int64_t> vocab_size = std::nullopt;
  Precision precision = Precision::kFromLogits;  ///< see Precision
};

/// What the forward pass writes. Views not given are not computed. Natural logarithms (nats).
struct LogpOutputs {
  TensorView logp;     ///< [...]: float32, or float64 under row64.v1
  TensorView lse;      ///< [...]: log of the sum of exponentials of the scaled logits
  TensorView entropy;  ///< [...]: entropy of the row's distribution
  /// Saved for backward, each contiguous with one entry per row: the maximum M (float32 or float64),
  TensorView row_max;
  /// the fixed-point sum S: int64 [rows] holding the unsigned bits, or [rows, 2] (low, high) under row64.v1,
  TensorView row_sum;
  /// and the fixed-point entropy sum U of the same layout (needed only for an entropy gradient).
  TensorView row_entropy_sum;
};

/// Statistics of the forward pass as backward reads them; the layouts of LogpOutputs.
struct LogpStats {
  ConstTensorView row_max;          ///< M
  ConstTensorView row_sum;          ///< S
  ConstTensorView row_entropy_sum;  ///< U; required when LogpUpstream::entropy is given
};

/// Upstream gradients, of the leading shape and any strides; one not given counts as +0.
struct LogpUpstream {
  ConstTensorView logp;     ///< float32, or float64 under row64.v1
  ConstTensorView lse;      ///< the same
  ConstTensorView entropy;  ///< the same
};

/// Selected-token log-probabilities of the last axis.
///
/// `logits` [..., vocab] float32, bfloat16, float16 or float64, last stride 1, other strides free.
/// `targets` [...] int32 or int64, any strides. Throws Error before anything is written.
/// Scratch: see logp_workspace_bytes; taken from `context.workspace` when it is large enough.
void logp_forward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                  const LogpOutputs& outputs, const ExecContext& context = {});

/// First-order gradient with respect to the logits: one read and one write of the logits.
///
/// `grad_logits` has the shape and dtype of `logits`, last stride 1, and does not overlap any input.
/// `options` must be those of the forward call; `stats` is what it saved. Padding columns, rows with an
/// invalid id and rows not selected get +0 (`keep_unselected` does not apply to gradients).
void logp_backward(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                   const LogpStats& stats, const LogpUpstream& upstream, const TensorView& grad_logits,
                   const ExecContext& context = {});

/// Scratch bytes a forward or backward call takes: block statistics of one row per thread at work, and one
/// bit per row when a row list is given.
std::size_t logp_workspace_bytes(const ConstTensorView& logits, const LogpOptions& options,
                                 const ExecContext& context = {});

}  // namespace samebits
