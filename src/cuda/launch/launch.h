// How work is cut for a launch, and the launch itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "cuda/runtime.h"

namespace samebits::cuda {

// Rows handled by one launch, so that item numbers stay far below 2^31.
inline constexpr std::int64_t kMaxItems = std::int64_t{1} << 30;

struct LaunchShape {
  std::int64_t ctas;
  int threads;
  int shared_bytes = 0;
  int cluster = 1;  // CTAs of a cluster; more than 8 where the device has room for such
  // The kernel may start while the one before it ends, and itself waits for it (prim/kernel_order.cuh); where it can.
  bool early = false;
};

// Of a kernel that begins with follow_kernel_ahead(), or waits at its end. Behind one that takes whole multiprocessors all
// CTAs start on the few that are free first: worth it only for a kernel that need not wait itself.
inline LaunchShape behind(std::int64_t ctas, int threads) { return {ctas, threads, 0, 1, true}; }

// Whether the code of `kernel` that this device runs was compiled for SM90 or newer: PTX of SM80 knows neither clusters nor
// how to wait for the kernel ahead, whatever runs it.
inline bool has_sm90_code(const char* name, const void* kernel) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), name);
  return attributes.ptxVersion >= 90;
}

// Asks for what a launch of this shape may use only then.
inline void permit(const char* name, const void* kernel, const LaunchShape& shape) {
  // 48 KiB, static memory included, need not be asked for.
  if (shape.shared_bytes > 40 << 10)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes),
          name);
  if (shape.cluster > 8)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), name);
}

// Clusters of a launch of this shape that the current device runs at once.
inline int active_clusters(const char* name, const void* kernel, const LaunchShape& shape) {
  permit(name, kernel, shape);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.ctas));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), name);
  return clusters;
}

// Launches `kernel` on the call's stream; errors carry its name.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape,
            const core::DeviceCall& call, Arguments&&... arguments) {
  if (shape.ctas == 0) return;
  if (shape.ctas > std::numeric_limits<std::int32_t>::max())
    throw Error(
        ErrorCode::kUnsupported, name,
        "would take " + std::to_string(shape.ctas) + " thread blocks; a launch may have at most 2147483647");
  permit(name, reinterpret_cast<const void*>(kernel), shape);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  if (shape.early && has_sm90_code(name, reinterpret_cast<const void*>(kernel))) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.ctas));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream_of(call);
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

// Runs `body(first_row, rows)` over ranges of rows of at most `most` each.
template <class Body>
void in_ranges(std::int64_t rows, std::int64_t most, Body body) {
  for (std::int64_t first = 0; first < rows; first += most) body(first, std::min(most, rows - first));
}

// True when each row of `a` begins as many elements past a multiple of `elements` as the same row of `b`. Both have one
// shape.
template <class VoidA, class VoidB>
bool equally_aligned(const core::RowArray<VoidA>& a, const core::RowArray<VoidB>& b, std::int64_t elements) {
  const auto past = [&](const void* data, DType dtype) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)) / dtype_size(dtype) % elements;
  };
  if (past(a.data, a.dtype) != past(b.data, b.dtype)) return false;
  // Strides that are such multiples keep that distance; other ones do when both arrays step alike.
  bool whole = true, alike = a.index.rank == b.index.rank;
  const auto visit = [&](const core::RowIndex& index, const core::RowIndex& other) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(index.rank); ++i) {
      whole = whole && index.strides[i] % elements == 0;
      alike = alike && index.shape[i] == other.shape[i] && index.strides[i] == other.strides[i];
    }
  };
  visit(a.index, b.index);
  visit(b.index, a.index);
  return whole || alike;
}

}  // namespace samebits::cuda
