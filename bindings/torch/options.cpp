// Arguments that are no tensors, and errors on their way to Python.
#include "convert.h"

namespace samebits::torch_binding {

LogpOptions make_options(const std::optional<Tensor>& row_temperature, const std::optional<Tensor>& rows,
                         double temperature, std::optional<std::int64_t> ignore_index,
                         const std::string& on_invalid, std::optional<std::int64_t> vocab_size,
                         bool binary64) {
  LogpOptions options;
  options.temperature = temperature;
  options.row_temperature = view(row_temperature);
  options.rows = view(rows);
  options.ignore_index = ignore_index;
  options.on_invalid = parse_on_invalid(on_invalid);
  options.vocab_size = vocab_size;
  options.precision = binary64 ? Precision::kFloat64 : Precision::kFromLogits;
  return options;
}

OnInvalid parse_on_invalid(const std::string& name) {
  if (name == "zero") return OnInvalid::kZero;
  if (name == "nan") return OnInvalid::kNan;
  if (name == "raise") return OnInvalid::kRaise;
  throw Error(ErrorCode::kInvalidArgument, "on_invalid",
              "is '" + name + "'; may be 'zero', 'nan' or 'raise'");
}

DType parse_dtype(const std::string& name) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kInt32, DType::kInt64})
    if (dtype_name(dtype) == name) return dtype;
  throw Error(ErrorCode::kType, "dtype", "is " + name + "; may be float32, bfloat16, float16 or float64");
}

bool is_binary64(const Tensor& logits, bool asked) { return asked || dtype_of(logits) == DType::kFloat64; }

std::runtime_error translate(const Error& error) {
  const char* kind = "unsupported";
  if (error.code() == ErrorCode::kInvalidArgument) kind = "value";
  if (error.code() == ErrorCode::kType) kind = "type";
  return std::runtime_error(std::string("[samebits:") + kind + "] " + error.what());
}

}  // namespace samebits::torch_binding
