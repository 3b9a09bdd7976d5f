// The engine that runs everywhere and takes every call: products into a buffer, and a pass over it.
#pragma once

#include <memory>

#include "cuda/launch/head_engine.h"

namespace samebits::cuda {

// The type that P and X are held in: that of the operands under tc16.v1, else the one that is computed in.
inline DType stored_dtype(const HeadShape& shape) {
  if (shape.tc16) return shape.dtype;
  return shape.binary64 ? DType::kFloat64 : DType::kFloat32;
}

std::unique_ptr<HeadEngine> make_generic_head_engine(const HeadShape& shape);

}  // namespace samebits::cuda
