#include "convert.h"

#include <torch/csrc/stable/ops.h>

#include <type_traits>

namespace samebits::torch_binding {
namespace {

struct DTypePair {
  std::int32_t torch;
  DType ours;
};

const DTypePair* dtype_table() {
  static const DTypePair table[] = {
      {aoti_torch_dtype_float32(), DType::kFloat32}, {aoti_torch_dtype_bfloat16(), DType::kBFloat16},
      {aoti_torch_dtype_int64(), DType::kInt64},     {aoti_torch_dtype_float16(), DType::kFloat16},
      {aoti_torch_dtype_float64(), DType::kFloat64}, {aoti_torch_dtype_int32(), DType::kInt32}};
  return table;
}
constexpr int kDTypes = 6;

template <class View>
View make_view(const Tensor& tensor, std::remove_reference_t<decltype(View::data)> data) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  View result(data, dtype_of(tensor), std::span(sizes.data(), sizes.size()),
              std::span(strides.data(), strides.size()));
  result.device = device_of(tensor);
  if (result.rank > 0 && result.shape[result.rank - 1] == 1) result.strides[result.rank - 1] = 1;
  return result;
}

}  // namespace

DType dtype_of(const Tensor& tensor) {
  std::int32_t code = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &code));
  const DTypePair* table = dtype_table();
  for (int i = 0; i < kDTypes; ++i)
    if (table[i].torch == code) return table[i].ours;
  throw Error(ErrorCode::kType, "dtype",
              "is none that samebits knows; may be float32, bfloat16, float16, float64, int32 or int64");
}

ConstTensorView view(const Tensor& tensor) {
  return make_view<ConstTensorView>(tensor, tensor.const_data_ptr());
}

ConstTensorView view(const std::optional<Tensor>& tensor) {
  return tensor ? view(*tensor) : ConstTensorView();
}

TensorView mutable_view(const Tensor& tensor) {
  return make_view<TensorView>(tensor, tensor.mutable_data_ptr());
}

Tensor dense_rows(const Tensor& tensor) {
  const std::int64_t rank = tensor.dim();
  if (rank == 0 || tensor.size(rank - 1) <= 1 || tensor.stride(rank - 1) == 1) return tensor;
  return torch::stable::contiguous(tensor);
}

// The C shim itself: going through the dispatcher, as torch::stable::new_empty does, costs a microsecond a tensor.
Tensor new_tensor(std::span<const std::int64_t> shape, DType dtype, std::int32_t device_type,
                  std::int32_t device_index) {
  std::int64_t strides[64];
  if (shape.size() > std::size(strides))
    throw Error(ErrorCode::kInvalidArgument, "shape", "has more than 8 dimensions; may have 0 to 8");
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
  const DTypePair* entry = dtype_table();
  while (entry->ours != dtype) ++entry;
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<std::int64_t>(shape.size()), shape.data(),
                                                  strides, entry->torch, device_type, device_index, &handle));
  return Tensor(handle);
}

std::span<const std::int64_t> shape_of(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.data(), sizes.size()};
}

}  // namespace samebits::torch_binding
