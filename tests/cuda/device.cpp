#include "device.h"

#include <stdexcept>

#include "rng.h"

namespace samebits::test {
namespace {

// cudaMalloc costs far more than a small test, so memory is kept and handed out again.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }
  std::byte* take(std::size_t bytes) {
    for (auto& block : blocks_)
      if (!block.used && block.bytes >= bytes && block.bytes <= 4 * bytes + 65536) {
        block.used = true;
        return block.data;
      }
    void* data = nullptr;
    cuda_check(cudaMalloc(&data, bytes));
    blocks_.push_back({static_cast<std::byte*>(data), bytes, true});
    return blocks_.back().data;
  }
  void give(std::byte* data) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].data != data) continue;
      blocks_[i].used = false;
      if (blocks_[i].bytes < (std::size_t{256} << 20)) return;
      cudaFree(data);  // large ones are not kept
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

 private:
  struct Block {
    std::byte* data;
    std::size_t bytes;
    bool used;
  };
  std::vector<Block> blocks_;
};

std::size_t past64(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 64; }

}  // namespace

LogpCase normal_case(std::int64_t rows, std::int64_t vocab, DType dtype) {
  Rng rng(static_cast<std::uint64_t>(rows * vocab));
  LogpCase c = plain_case(rows, vocab, dtype);
  for (std::int64_t k = 0; k < rows * vocab; ++k)
    set_element(c.logits, k, 20 * (rng.uniform() + rng.uniform() - 1));
  for (std::int64_t& target : c.targets) target = rng.below(vocab);
  c.grad_logp = Values(DType::kFloat32, rows);
  for (std::int64_t row = 0; row < rows; ++row) set_element(c.grad_logp, row, rng.normal());
  return c;
}

void cuda_check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

DeviceBytes::DeviceBytes(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = Pool::instance().take(bytes);
  cuda_check(cudaMemset(data_, static_cast<int>(kFill), bytes));
}

DeviceBytes::~DeviceBytes() {
  if (data_ != nullptr) Pool::instance().give(data_);
}

TensorView DeviceResidence::enter(std::span<std::byte> storage, const TensorView& view) {
  Mirror mirror{storage, std::make_unique<DeviceBytes>(storage.size() + 64), nullptr};
  mirror.begin = mirror.bytes->data() + past64(storage.data());
  if (!storage.empty())
    cuda_check(cudaMemcpy(mirror.begin, storage.data(), storage.size(), cudaMemcpyHostToDevice));
  TensorView moved = view;
  moved.device = kGpu;
  if (view.data != nullptr) moved.data = mirror.begin + (static_cast<std::byte*>(view.data) - storage.data());
  mirrors_.push_back(std::move(mirror));
  return moved;
}

std::span<std::byte> DeviceResidence::workspace(std::size_t bytes) {
  workspace_ = std::make_unique<DeviceBytes>(bytes);
  return workspace_->span();
}

void DeviceResidence::bring_back() {
  cuda_check(cudaDeviceSynchronize());
  for (const Mirror& mirror : mirrors_)
    if (!mirror.host.empty())
      cuda_check(cudaMemcpy(mirror.host.data(), mirror.begin, mirror.host.size(), cudaMemcpyDeviceToHost));
}

}  // namespace samebits::test
