// How work is cut for a launch, and the launch itself.
#pragma once

#include <algorithm>

#include "cuda/runtime.h"

namespace samebits::cuda {

// Rows handled by one launch, so that item numbers stay far below 2^31.
inline constexpr std::int64_t kMaxItems = std::int64_t{1} << 30;

struct LaunchShape {
  std::int64_t ctas;
  int threads;
  int shared_bytes = 0;
  int cluster = 1;  // CTAs of a cluster
};

// Launches `kernel` on the call's stream; errors carry its name.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape,
            const core::DeviceCall& call, Arguments&&... arguments) {
  if (shape.ctas == 0) return;
  if (shape.shared_bytes > 48 << 10)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes),
          name);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.ctas));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream_of(call);
  config.attrs = &cluster;
  config.numAttrs = shape.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

// Runs `body(first_row, rows)` over ranges of rows of at most `most` each.
template <class Body>
void in_ranges(std::int64_t rows, std::int64_t most, Body body) {
  for (std::int64_t first = 0; first < rows; first += most) body(first, std::min(most, rows - first));
}

// True when every row of the array starts at a multiple of 16 bytes.
template <class Void>
bool aligned16(const core::RowArray<Void>& array) {
  const std::int64_t size = dtype_size(array.dtype);
  bool aligned = reinterpret_cast<std::uintptr_t>(array.data) % 16 == 0;
  for (int i = 0; i < array.index.rank; ++i)
    aligned = aligned && array.index.strides[static_cast<std::size_t>(i)] * size % 16 == 0;
  return aligned;
}

}  // namespace samebits::cuda
