// Host tensors of the tests, and their copies on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <vector>

#include <samebits/view.h>

#include "logp_case.h"
#include "strided.h"

namespace samebits::test {

inline constexpr Device kGpu{DeviceType::kCuda, 0};

// Logits within [-20, 20], valid targets, an upstream of logp.
LogpCase normal_case(std::int64_t rows, std::int64_t vocab, DType dtype);

// Throws when a CUDA call failed.
void cuda_check(cudaError_t status);

// A piece of device memory, filled with kFill.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* data() const { return data_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

// Tensors of one run_case or row_sum_call, copied to the device at the same distance from a 64-byte boundary.
class DeviceResidence : public Residence {
 public:
  TensorView enter(std::span<std::byte> storage, const TensorView& view) override;
  std::span<std::byte> workspace(std::size_t bytes) override;
  void bring_back() override;

 private:
  struct Mirror {
    std::span<std::byte> host;
    std::unique_ptr<DeviceBytes> bytes;
    std::byte* begin;
  };
  std::vector<Mirror> mirrors_;
  std::unique_ptr<DeviceBytes> workspace_;
};

}  // namespace samebits::test
