// What every launch needs of the CUDA runtime: errors as exceptions, the right device, scratch memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/device_backend.h"

namespace samebits::cuda {

// Throws Error(kUnsupported) saying what failed and why.
void check(cudaError_t status, const char* what);

// What launches depend on; none of it can change a bit.
struct DeviceTraits {
  std::string name;
  std::string architecture;  // "sm90"
  int major = 0;             // of the compute capability
  int multiprocessors = 0;
  int shared_bytes = 0;  // that one CTA may ask for
};
// Cached; throws Error when the device does not exist or is older than SM80.
const DeviceTraits& traits(Device device);

// Makes a device current and restores what was.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0, now_ = 0;
};

// Device memory of one call, handed out in pieces of 256 bytes: the caller's workspace when it is large enough, else
// one allocation in stream order.
class Scratch {
 public:
  Scratch(const core::DeviceCall& call, std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* take(std::size_t bytes);
  static std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  // What to ask of the caller so that `bytes` fit behind any alignment.
  static std::size_t padded(std::size_t bytes) { return bytes == 0 ? 0 : bytes + 256; }

 private:
  cudaStream_t stream_;
  void* owned_ = nullptr;
  std::byte* next_ = nullptr;
};

inline cudaStream_t stream_of(const core::DeviceCall& call) { return static_cast<cudaStream_t>(call.stream); }

}  // namespace samebits::cuda
