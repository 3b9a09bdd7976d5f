#include "core/product_checks.h"

namespace samebits::core {

bool check_contract(std::string_view contract, DType dtype) {
  const std::string quoted = "'" + std::string(contract) + "'";
  if (contract != "auto" && contract != "fma" && contract != "tc16")
    throw Error(ErrorCode::kInvalidArgument, "contract", "is " + quoted + "; may be 'auto', 'fma' or 'tc16'");
  if (contract == "tc16" && !is_half(dtype))
    throw Error(ErrorCode::kInvalidArgument, "contract",
                "is 'tc16' with " + name_of(dtype) +
                    " operands; tc16 takes bfloat16 or float16, may be 'auto' or 'fma'");
  return contract != "fma" && is_half(dtype);
}

void check_head_precision(Precision precision, DType dtype) {
  if (precision == Precision::kFloat64 && dtype != DType::kFloat64)
    throw Error(ErrorCode::kUnsupported, "precision",
                "is 'fp64' with " + name_of(dtype) +
                    " operands; linear_logp normalises in float64 for float64 operands alone");
}

void check_operand(const ConstTensorView& view, const char* name) {
  if (!view) throw Error(ErrorCode::kInvalidArgument, name, "is missing");
  check_view(view, name);
  if (!is_floating(view.dtype))
    throw Error(ErrorCode::kType, name,
                "is " + name_of(view.dtype) + "; may be float32, bfloat16, float16 or float64");
}

void check_matrix(const ConstTensorView& view, const char* name, const char* axes, Device device) {
  check_operand(view, name);
  if (view.rank != 2)
    throw Error(ErrorCode::kInvalidArgument, name,
                "has shape " + shape_text(view) + "; must be a matrix " + std::string(axes));
  check_memory(view, name, device);
}

void check_depth(const ConstTensorView& view, const char* name, std::int64_t depth, std::int64_t most) {
  if (depth > most)
    throw Error(
        ErrorCode::kInvalidArgument, name,
        "has shape " + shape_text(view) + "; sums may be over at most " + std::to_string(most) + " products");
}

MatmulProblem product_problem(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& bias,
                              bool tc16, const TensorView& out) {
  MatmulProblem problem;
  problem.rows = a.shape[0];
  problem.columns = b.shape[1];
  problem.depth = a.shape[1];
  problem.dtype = a.dtype;
  problem.tc16 = tc16;
  problem.out_dtype = out.dtype;
  problem.a = {a.data, a.strides[0], a.strides[1]};
  problem.b = {b.data, b.strides[0], b.strides[1]};
  problem.out = out.data;
  problem.out_row_stride = out.strides[0];
  problem.bias = bias.data;
  problem.bias_stride = bias.strides[0];
  return problem;
}

void check_same_dtype(const ConstTensorView& view, const char* name, DType dtype, const char* other) {
  if (view.dtype != dtype)
    throw Error(ErrorCode::kType, name,
                "is " + name_of(view.dtype) + "; must be " + name_of(dtype) + " like " + other);
}

}  // namespace samebits::core
