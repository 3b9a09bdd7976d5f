// samebits::matmul on the GPU with operands that lie in host memory.
#pragma once

#include <string>

#include <samebits/samebits.h>

#include "bits.h"
#include "matmul_case.h"

namespace samebits::test {

// How a product is asked for, and what memory it gets.
struct ProductCall {
  std::string contract = "auto", backend = "auto";
  bool workspace = true;  // of the size the library says; else it allocates for itself
};

// Copies every view to the device at its distance from a 64-byte boundary. Fails the running test when the call writes
// outside of `out`.
Values product_on_gpu(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                      const ProductCall& call = {}, const ConstTensorView& bias = {});

// What the CPU gives for the same.
Values product_on_cpu(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                      const std::string& contract = "auto", const ConstTensorView& bias = {});

}  // namespace samebits::test
