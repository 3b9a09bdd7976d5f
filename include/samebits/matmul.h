// The deterministic GEMM, and log-probabilities fused with the LM head.
//
// Determinism level: cross_device. Contracts: fma.v1 (fp32, or 16-bit operands by name) and fma64.v1 (fp64).
#pragma once

#include <cstddef>
#include <string_view>

#include <samebits/context.h>
#include <samebits/logp.h>
#include <samebits/view.h>

namespace samebits {

/// Options of a product.
struct MatmulOptions {
  /// "auto" or "fma". "auto" depends on the dtype alone: fma for float32 and float64, tc16 for 16-bit operands;
  /// tc16 is not available on the CPU yet and raises; "fma" runs 16-bit operands exactly converted to fp32.
  std::string_view contract = "auto";
  /// Of matmul alone: optional [N] of the dtype of the operands, any stride. Added to every row in one rounding
  /// (float32, or float64 for float64 operands) before the rounding to the dtype of `out`.
  ConstTensorView bias = {};
};

/// `out = a @ b` (plus the bias), each element of the product a chain of fused multiply-adds over ascending k in
/// segments of 8192.
///
/// `a` [M, K] and `b` [K, N] share one dtype, any strides (zero and negative included). `out` [M, N] has that
/// dtype or float32 for 16-bit operands, last stride 1, and does not overlap an input. K = 0 gives +0.
void matmul(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
            const MatmulOptions& options = {}, const ExecContext& context = {});

/// Log-probabilities of `targets` under logits = hidden @ weight.T + bias, without storing the logits.
///
/// `hidden` [..., H], `weight` [V, H] and the optional `bias` [V] share one dtype (float32, or float64 under
/// fma64.v1+row64.v1), any strides. The outputs equal, bit for bit, logp_forward on the unfused product.
/// `options.rows` and invalid ids: only participating rows are computed.
/// Scratch: block statistics of a bounded number of rows and one packed panel of weight per thread.
void linear_logp_forward(const ConstTensorView& hidden, const ConstTensorView& weight,
                         const ConstTensorView& targets, const ConstTensorView& bias,
                         const LogpOptions& options, const LogpOutputs& outputs,
                         const MatmulOptions& matmul_options = {}, const ExecContext& context = {});

}  // namespace samebits
