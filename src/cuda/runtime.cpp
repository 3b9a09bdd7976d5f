#include "cuda/runtime.h"

#include <mutex>
#include <vector>

namespace samebits::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a launch that failed leaves its error behind for the next call to stumble over
  throw Error(
      ErrorCode::kUnsupported, what,
      std::string("failed with ") + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}

const DeviceTraits& traits(Device device) {
  static std::mutex mutex;
  static std::vector<DeviceTraits*> known;
  const std::lock_guard lock(mutex);
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (device.index < 0 || device.index >= count)
    throw Error(ErrorCode::kUnsupported, "device",
                "is " + core::device_text(device) + ", and this machine has " + std::to_string(count) +
                    " CUDA devices");
  if (known.size() < static_cast<std::size_t>(count)) known.resize(static_cast<std::size_t>(count));
  DeviceTraits*& entry = known[static_cast<std::size_t>(device.index)];
  if (entry != nullptr) return *entry;

  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  if (properties.major < 8)
    throw Error(ErrorCode::kUnsupported, "device",
                "is " + core::device_text(device) + " of compute capability " +
                    std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                    "; must be 8.0 or newer");
  // Lives as long as the process: entries are few and callers keep references.
  entry = new DeviceTraits{
      properties.name, "sm" + std::to_string(properties.major) + std::to_string(properties.minor),
      properties.major, properties.multiProcessorCount, static_cast<int>(properties.sharedMemPerBlockOptin)};
  return *entry;
}

DeviceGuard::DeviceGuard(Device device) : now_(device.index) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != now_) check(cudaSetDevice(now_), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() {
  if (before_ != now_) cudaSetDevice(before_);
}

Scratch::Scratch(const core::DeviceCall& call, std::size_t bytes) : stream_(stream_of(call)) {
  if (bytes == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(call.workspace.data());
  if (call.workspace.size() >= padded(bytes)) {
    next_ = call.workspace.data() + (256 - address % 256) % 256;
    return;
  }
  check(cudaMallocAsync(&owned_, bytes, stream_), "cudaMallocAsync");
  next_ = static_cast<std::byte*>(owned_);
}

Scratch::~Scratch() {
  if (owned_ != nullptr) cudaFreeAsync(owned_, stream_);
}

void* Scratch::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* piece = next_;
  next_ += rounded(bytes);
  return piece;
}

}  // namespace samebits::cuda
