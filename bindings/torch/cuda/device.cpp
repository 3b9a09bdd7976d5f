// CUDA: torch's allocator and torch's current stream.
#include "../device.h"

namespace samebits::torch_binding {

Device device_of(const Tensor& tensor) {
  if (!tensor.is_cuda()) return {};
  return {DeviceType::kCuda, static_cast<int>(tensor.get_device_index())};
}

Tensor empty(std::span<const std::int64_t> shape, DType dtype, const Tensor& like) {
  return new_tensor(shape, dtype, aoti_torch_device_type_cuda(), device_of(like).index);
}

Call::Call(const std::string& backend, const Tensor& like) : like_(like), needs_scratch_(true) {
  context_.backend = backend;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_of(like).index, &context_.stream));
}

void Call::reserve(std::size_t bytes) {
  if (bytes == 0) return;
  const std::int64_t words[] = {static_cast<std::int64_t>((bytes + 7) / 8)};
  scratch_ = empty(words, DType::kInt64, like_);
  context_.workspace = {static_cast<std::byte*>(scratch_->mutable_data_ptr()),
                        static_cast<std::size_t>(words[0]) * 8};
}

}  // namespace samebits::torch_binding
