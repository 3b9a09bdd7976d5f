// The primitives that derivatives of logp of any order are made of: probabilities of a row, and the sum of a row.
//
// Determinism level: cross_device. Contracts: row.v1 (results in float32) and row64.v1 (in float64). The bits of a
// row depend on that row alone: never on the batch, the strides, the backend or the number of threads.
#pragma once

#include <cstddef>

#include <samebits/context.h>
#include <samebits/logp.h>
#include <samebits/view.h>

namespace samebits {

/// Probabilities of every column, softmax(logits / temperature), from the statistics that logp_forward saved.
///
/// `logits` [..., vocab], `targets` [...] and `options` are those of logp_forward; `stats` holds its row_max and
/// row_sum (row_entropy_sum is not read). `probabilities` has the shape of `logits`, float32 (float64 under
/// row64.v1), last stride 1, other strides free, and does not overlap any input. One read, one write.
///
/// Rows with an invalid id (whatever `on_invalid`), ignored or not selected (`keep_unselected` does not apply),
/// rows of -inf alone and padding columns are +0. A row whose maximum is NaN or +inf is NaN.
/// Throws Error before anything is written.
/// Scratch: one bit per row when a row list is given; taken from `context.workspace` when it is large enough
/// (logp_workspace_bytes is).
void probability(const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& options,
                 const LogpStats& stats, const TensorView& probabilities, const ExecContext& context = {});

/// Sums over the last axis, added in the order of the contract.
///
/// `values` [..., n] float32 or float64, n at most 2^22, last stride 1, other strides free (0 included). `sums`
/// [...] has that dtype, any strides, and does not overlap `values`. n = 0 gives +0; a NaN result is the canonical
/// one. Throws Error before anything is written.
/// Scratch: one value per part of a row, where few rows are cut into parts for many threads; taken from
/// `context.workspace` when it is large enough (row_sum_workspace_bytes).
void row_sum(const ConstTensorView& values, const TensorView& sums, const ExecContext& context = {});

/// Scratch bytes of a row_sum call.
std::size_t row_sum_workspace_bytes(const ConstTensorView& values, const ExecContext& context = {});

}  // namespace samebits
