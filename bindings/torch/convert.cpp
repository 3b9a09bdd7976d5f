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

// torch's shims write the reason of a failure to a log and return a code alone.
[[noreturn]] void cannot_allocate(std::span<const std::int64_t> shape, DType dtype, const Device& device) {
  std::string extents;
  auto size = static_cast<std::uint64_t>(dtype_size(dtype));
  bool countable = true;
  for (const std::int64_t extent : shape) {
    extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
    countable = countable && !__builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size);
  }
  throw std::runtime_error(
      "samebits: a tensor of shape [" + extents + "] and dtype " + std::string(dtype_name(dtype)) + ", " +
      (countable ? std::to_string(size) : "2^64 or more") + " bytes, cannot be allocated on " +
      (device.type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(device.index)));
}

// Strides of a contiguous tensor; false where its bytes cannot be counted.
bool dense_strides(std::span<const std::int64_t> shape, DType dtype, std::int64_t* strides) {
  std::int64_t stride = 1, bytes = 0;
  bool countable = true;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    countable = countable && !__builtin_mul_overflow(stride, shape[i] > 0 ? shape[i] : 1, &stride);
  }
  return countable && !__builtin_mul_overflow(stride, dtype_size(dtype), &bytes);
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
  try {
    return torch::stable::contiguous(tensor);
  } catch (const std::exception&) {
    cannot_allocate(shape_of(tensor), dtype_of(tensor), device_of(tensor));
  }
}

// The C shim itself: going through the dispatcher, as torch::stable::new_empty does, costs a microsecond a tensor.
Tensor new_tensor(std::span<const std::int64_t> shape, DType dtype, std::int32_t device_type,
                  std::int32_t device_index) {
  std::int64_t strides[64];
  if (shape.size() > std::size(strides))
    throw Error(ErrorCode::kInvalidArgument, "shape", "has more than 8 dimensions; may have 0 to 8");
  const Device device{device_type == aoti_torch_device_type_cpu() ? DeviceType::kCpu : DeviceType::kCuda,
                      device_index};
  if (!dense_strides(shape, dtype, strides)) cannot_allocate(shape, dtype, device);
  const DTypePair* entry = dtype_table();
  while (entry->ours != dtype) ++entry;
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(static_cast<std::int64_t>(shape.size()), shape.data(), strides, entry->torch,
                               device_type, device_index, &handle) != TORCH_SUCCESS)
    cannot_allocate(shape, dtype, device);
  return Tensor(handle);
}

std::span<const std::int64_t> shape_of(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.data(), sizes.size()};
}

}  // namespace samebits::torch_binding
