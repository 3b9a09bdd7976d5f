// Products of two matrices on a GPU: what they are asked for, and the engines that compute them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/device_backend.h"
#include "core/matmul_problem.h"

namespace samebits::cuda {

// out[i, j] = the chain over k of a(i, k) * b(k, j) in segments of 8192 from k = 0, added ascending from +0 (so -0 never
// comes out), plus bias[j] where there is one, rounded once to out_dtype. Any strides, any sizes.
//
// tc16: both operands bfloat16 or both float16. Else fma: float64 for both operands, or float32 and 16-bit ones in any
// mixture, widened exactly. Sums are float32, or float64 for float64 operands.
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  DType a_dtype = DType::kFloat32, b_dtype = DType::kFloat32;
  bool tc16 = false;
  core::Operand a = {}, b = {};  // (i, k) and (k, j)
  void* out = nullptr;
  std::int64_t out_row_stride = 0;  // in elements of out_dtype; columns are dense

  // Numbers that only the device knows, or null. Rows i with row_first + i >= *row_bound are left alone, in `out` too;
  // k with depth_first + k >= *depth_bound are left out of the sum, as if the depth ended there.
  const std::int32_t* row_bound = nullptr;
  const std::int32_t* depth_bound = nullptr;
  std::int64_t row_first = 0, depth_first = 0;

  DType out_dtype = DType::kFloat32;
  const void* bias = nullptr;  // [columns] of a_dtype
  std::int64_t bias_stride = 1;
};

Product product_of(const core::MatmulProblem& problem);

// A product of one segment: depth <= 8192, the accumulator as it is: float32 or, for float64 operands, float64.
using SegmentProduct = Product;
void segment_product(const SegmentProduct& product, const core::DeviceCall& call);

// The products that need no other engine; no scratch.
void product_mma(const Product& product, const core::DeviceCall& call);  // tc16 by mma.sync
void product_fma(const Product& product, const core::DeviceCall& call);  // fma on CUDA cores

// One way to compute products. No choice of engine can change a bit; nothing of it waits for the device.
struct ProductEngine {
  const char* name;    // as ExecContext::backend takes it
  const char* kernel;  // id for plans: the name that a profiler shows
  bool by_name_only;   // never chosen unless it is asked for
  bool tensor_cores;   // the device is probed through it before it is used
  // Why it does not take the product; empty when it does.
  std::string (*refusal)(const Product&, Device);
  std::size_t (*scratch_bytes)(const Product&, Device);  // alignment not included
  void (*run)(const Product&, const core::DeviceCall&);  // may use call.workspace
};

// Every engine; the first that does not refuse a product computes it.
std::span<const ProductEngine> product_engines();

}  // namespace samebits::cuda
