// Descriptions of matrices for the copy engine.
#pragma once

#include <cuda.h>

#include <cstdint>

#include <samebits/dtype.h>

namespace samebits::cuda {

// A matrix of 16-bit elements whose inner axis is dense.
struct DenseMatrix {
  const void* data = nullptr;
  DType dtype = DType::kBFloat16;
  std::int64_t inner = 0, outer = 0;  // extents
  std::int64_t stride = 0;            // elements between neighbours along the outer axis
};

// Why the copy engine cannot read it; null when it can.
const char* no_tensor_map(const DenseMatrix& matrix);

// Whether it can write it and nothing else: it writes 16 bytes at a time, also where a row ends amid them.
bool can_tensor_store(const DenseMatrix& matrix);

// Boxes of 64 x `box_outer` elements in rows of 128 bytes, swizzled.
CUtensorMap tensor_map(const DenseMatrix& matrix, int box_outer);

}  // namespace samebits::cuda
