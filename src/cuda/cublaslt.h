// cuBLASLt, found at run time: it is hundreds of megabytes, torch brings its own copy, and only the engine of that name
// needs it. So nothing links it; dlopen finds the copy that is loaded already, else the one on the library path.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <string>

#include <samebits/dtype.h>

namespace samebits::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get;
  decltype(&cublasLtMatmul) matmul;
  std::string problem;  // why there is none; empty when there is
};

// Looked for once.
const CublasLt& cublaslt();

// Throws Error(kUnsupported) saying what failed.
void check(cublasStatus_t status, const char* what);

// One segment: out (rows x columns) of row-major out_dtype. Equal keys run the same algorithm for ever.
struct CublasLtKey {
  int device;
  DType dtype, out_dtype;
  std::int64_t rows, columns, depth, lead_a, lead_b, lead_out;
  bool dense_a, dense_b;
  auto operator<=>(const CublasLtKey&) const = default;
};

struct CublasLtProduct {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, out;
  cublasLtMatmulAlgo_t algo;
};

// Made once for each key; throws Error when the library has no algorithm that leaves K in one piece.
const CublasLtProduct& cublaslt_product(const CublasLtKey& key);

}  // namespace samebits::cuda
