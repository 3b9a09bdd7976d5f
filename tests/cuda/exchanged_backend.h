// The CUDA backend with some of its functions exchanged.
#pragma once

#include <samebits/cuda.h>

#include "core/device_backend.h"

namespace samebits::test {

// Calls go through `table` as long as this lives.
class ExchangedBackend {
 public:
  ExchangedBackend() : table(core::device_backend({DeviceType::kCuda, 0}, "backend")) {
    core::register_device_backend(DeviceType::kCuda, &table);
  }
  ~ExchangedBackend() { cuda::enable(); }
  ExchangedBackend(const ExchangedBackend&) = delete;
  ExchangedBackend& operator=(const ExchangedBackend&) = delete;

  core::DeviceBackend table;
};

}  // namespace samebits::test
