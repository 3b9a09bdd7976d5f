#include "cuda/launch/tensor_map.h"

#include <cuda_runtime_api.h>

#include <string>

#include <samebits/error.h>

#include "cuda/runtime.h"

namespace samebits::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Asked of the runtime, so that the library does not need the driver's to be linked.
Encode encode_function() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess)
    throw Error(ErrorCode::kUnsupported, "driver",
                "has no cuTensorMapEncodeTiled; must be of CUDA 12.0 or newer");
  return reinterpret_cast<Encode>(entry);
}

}  // namespace

const char* no_tensor_map(const DenseMatrix& matrix) {
  if (reinterpret_cast<std::uintptr_t>(matrix.data) % 16 != 0)
    return "does not begin at a multiple of 16 bytes";
  if (matrix.outer > 1 && (matrix.stride % 8 != 0 || matrix.stride < matrix.inner))
    return "has rows that are not a multiple of 8 elements apart";
  if (matrix.inner < 1 || matrix.outer < 1) return "is empty";
  if (matrix.inner > (std::int64_t{1} << 31) || matrix.outer > (std::int64_t{1} << 31) ||
      matrix.stride > (std::int64_t{1} << 38))
    return "is too large";
  return nullptr;
}

bool can_tensor_store(const DenseMatrix& matrix) {
  return matrix.inner % 8 == 0 && no_tensor_map(matrix) == nullptr;
}

CUtensorMap tensor_map(const DenseMatrix& matrix, int box_outer) {
  static const Encode encode = encode_function();
  CUtensorMap map;
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(matrix.inner), static_cast<cuuint64_t>(matrix.outer)};
  // The distance of a single row is never used, but must be one that is allowed.
  const std::int64_t stride = matrix.outer > 1 ? matrix.stride : (matrix.inner + 7) / 8 * 8;
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_outer)}, steps[] = {1, 1};
  const CUresult result = encode(
      &map,
      matrix.dtype == DType::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2, const_cast<void*>(matrix.data), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error(ErrorCode::kUnsupported, "cuTensorMapEncodeTiled",
                "failed with error " + std::to_string(static_cast<int>(result)) + " for a matrix of " +
                    std::to_string(matrix.outer) + " x " + std::to_string(matrix.inner));
  return map;
}

}  // namespace samebits::cuda
