// samebits::matmul: check, pick a backend, run.
#include <samebits/matmul.h>

#include "core/backend.h"
#include "core/device_backend.h"
#include "core/product_checks.h"

namespace samebits {
namespace {

using core::check_matrix, core::check_same_dtype, core::is_half, core::name_of, core::shape_text;

void check_product_output(const TensorView& out, const ConstTensorView& a, const ConstTensorView& b) {
  if (!out) throw Error(ErrorCode::kInvalidArgument, "out", "is missing");
  if (out.dtype != a.dtype && !(is_half(a.dtype) && out.dtype == DType::kFloat32))
    throw Error(ErrorCode::kType, "out",
                "is " + name_of(out.dtype) + "; must be " + name_of(a.dtype) +
                    (is_half(a.dtype) ? " or float32" : ""));
  if (out.rank != 2 || out.shape[0] != a.shape[0] || out.shape[1] != b.shape[1])
    throw Error(ErrorCode::kInvalidArgument, "out",
                "has shape " + shape_text(out) + "; must be [" + std::to_string(a.shape[0]) + ", " +
                    std::to_string(b.shape[1]) + "] for a " + shape_text(a) + " and b " + shape_text(b));
  core::check_dense(out, "out");
  core::check_writable(out, "out", a.device);
  core::check_no_overlap(out, "out", a, "a");
  core::check_no_overlap(out, "out", b, "b");
}

// One entry for each of the `count` columns of the product.
void check_bias(const ConstTensorView& bias, std::int64_t count, DType dtype, const TensorView& out) {
  if (!bias) return;
  check_same_dtype(bias, "bias", dtype, "a");
  if (bias.rank != 1 || bias.shape[0] != count)
    throw Error(ErrorCode::kInvalidArgument, "bias",
                "has shape " + shape_text(bias) + "; must be [" + std::to_string(count) +
                    "], one entry per column of b");
  core::check_memory(bias, "bias", out.device);
  core::check_no_overlap(out, "out", bias, "bias");
}

core::MatmulProblem checked_problem(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
                                    const MatmulOptions& options) {
  check_matrix(a, "a", "[M, K]", a.device);
  check_matrix(b, "b", "[K, N]", a.device);
  check_same_dtype(b, "b", a.dtype, "a");
  const bool tc16 = core::check_contract(options.contract, a.dtype);
  if (a.shape[1] != b.shape[0])
    throw Error(ErrorCode::kInvalidArgument, "b",
                "has shape " + shape_text(b) + " and a has shape " + shape_text(a) + "; b must have " +
                    std::to_string(a.shape[1]) + " rows, as many as a has columns");
  core::check_depth(a, "a", a.shape[1], core::kMostDepth);
  check_product_output(out, a, b);
  check_bias(options.bias, b.shape[1], a.dtype, out);

  return core::product_problem(a, b, options.bias, tc16, out);
}

}  // namespace

void matmul(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
            const MatmulOptions& options, const ExecContext& context) {
  const core::MatmulProblem problem = checked_problem(a, b, out, options);
  core::check_workspace(context.workspace, {{"a", a}, {"b", b}, {"out", out}, {"bias", options.bias}});
  if (core::on_device(a.device)) {
    const core::DeviceBackend& backend = core::pick_product_backend(problem, a.device, context);
    if (problem.rows == 0 || problem.columns == 0) return;
    return backend.matmul(problem, core::make_device_call(a.device, context));
  }
  const core::Backend& backend = core::pick_backend(context.backend);
  core::Executor executor = core::make_executor(context);
  if (problem.rows == 0 || problem.columns == 0) return;
  const core::Scratch scratch(context.workspace, backend.matmul_scratch_bytes(problem, executor.threads));
  executor.workspace = scratch.after(0);
  backend.matmul(problem, executor);
}

std::size_t matmul_workspace_bytes(const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
                                   const MatmulOptions& options, const ExecContext& context) {
  const core::MatmulProblem problem = checked_problem(a, b, out, options);
  if (problem.rows == 0 || problem.columns == 0) return 0;
  if (core::on_device(a.device))
    return core::pick_product_backend(problem, a.device, context)
        .matmul_scratch_bytes(problem, core::make_device_call(a.device, context));
  const core::Backend& backend = core::pick_backend(context.backend);
  return core::Scratch::padded(backend.matmul_scratch_bytes(problem, core::make_executor(context).threads));
}

}  // namespace samebits
