// The deterministic GEMM, and log-probabilities fused with the LM head.
//
// Determinism level: cross_device. Contracts: fma.v1 (fp32, or 16-bit operands by name), tc16.v1 (16-bit operands)
// and fma64.v1 (fp64).
#pragma once

#include <cstddef>
#include <string_view>

#include <samebits/context.h>
#include <samebits/logp.h>
#include <samebits/view.h>

namespace samebits {

/// Options of a product.
struct MatmulOptions {
  /// "auto", "fma" or "tc16". "auto" depends on the dtype alone: fma for float32 and float64, tc16 for 16-bit
  /// operands. "tc16", the sum of a Hopper tensor core, takes 16-bit operands alone; "fma" runs them too, exactly
  /// converted to fp32.
  std::string_view contract = "auto";
  /// Of matmul alone: optional [N] of the dtype of the operands, any stride. Added to every row in one rounding
  /// (float32, or float64 for float64 operands) before the rounding to the dtype of `out`.
  ConstTensorView bias = {};
};

/// `out = a @ b` (plus the bias). Each element of the product is a chain over ascending k in segments of 8192: of
/// fused multiply-adds, or under tc16 of group steps of 16 products (docs/contract.md).
///
/// `a` [M, K] and `b` [K, N] share one dtype, any strides (zero and negative included). `out` [M, N] has that
/// dtype or float32 for 16-bit operands, last stride 1, and does not overlap an input. K = 0 gives +0; K is at most 2^36.
void matmul(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
            const MatmulOptions& options = {}, const ExecContext& context = {});

/// Bytes of the workspace with which matmul of these arguments allocates nothing itself. Arguments are checked alike.
std::size_t matmul_workspace_bytes(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
                                   const MatmulOptions& options = {}, const ExecContext& context = {});

/// Log-probabilities of `targets` under logits = hidden @ weight.T + bias, without storing the logits.
///
/// `hidden` [..., H], `weight` [V, H] and the optional `bias` [V] share one dtype, any strides: float32, bfloat16 or
/// float16 (outputs float32), or float64 (outputs float64, under fma64.v1+row64.v1); H is at most 2^31. The outputs
/// equal, bit for bit, logp_forward on the unfused product in float32 or float64; logits are never rounded to 16 bits.
/// `options.rows` and invalid ids: only participating rows are computed.
/// Scratch: block statistics of a bounded number of rows and one packed panel of weight per thread.
///
/// `saved` [N, V rounded up to 64] keeps, for linear_logp_backward, the unscaled probabilities of the first N rows that
/// take part (docs/contract.md, "the P form"), which cost that one a product otherwise: on a GPU, for bfloat16 operands
/// under tc16, without an entropy, beside row_max and row_sum. N is at most the number of rows, and of those listed;
/// bfloat16, contiguous, 128-byte aligned. Absent or without rows elsewhere. Changes no bit.
void linear_logp_forward(const ConstTensorView& hidden, const ConstTensorView& weight,
                         const ConstTensorView& targets, const ConstTensorView& bias,
                         const LogpOptions& options, const LogpOutputs& outputs,
                         const MatmulOptions& matmul_options = {}, const ExecContext& context = {},
                         const TensorView& saved = {});

}  // namespace samebits
