#include "cuda/launch/product.h"

#include "cuda/launch/operators.h"
#include "cuda/launch/product_cublaslt.h"
#include "cuda/launch/product_sm90.h"
#include "cuda/probe.h"
#include "cuda/runtime.h"

namespace samebits::cuda {
namespace {

std::string no_mma(const Product& product, Device) {
  return product.tc16 ? "" : "it computes contract='tc16' alone";
}
std::string no_simt(const Product& product, Device) {
  return product.tc16 ? "it computes contract='fma' alone" : "";
}
std::size_t no_scratch(const Product&, Device) { return 0; }

constexpr ProductEngine kEngines[] = {
    {"sm90", "sm90_product", false, true, no_sm90_product, sm90_product_scratch_bytes, product_sm90},
    {"mma", "product_mma_tile", false, true, no_mma, no_scratch, product_mma},
    {"cublaslt", "cublaslt", true, true, no_cublaslt, cublaslt_scratch_bytes, product_cublaslt},
    {"simt", "product_fma_tile", false, false, no_simt, no_scratch, product_fma},
};

const ProductEngine& engine_for(const Product& product, const core::DeviceCall& call) {
  for (const ProductEngine& engine : kEngines) {
    if (call.engine.empty() ? engine.by_name_only : call.engine != engine.name) continue;
    const std::string refusal = engine.refusal(product, call.device);
    if (refusal.empty()) return engine;
    if (!call.engine.empty())
      throw Error(ErrorCode::kUnsupported, "backend",
                  "is '" + std::string(engine.name) + "', which cannot run this product: " + refusal +
                      "; may be 'auto' or 'cuda'");
  }
  // The last engines of the table refuse nothing of their contract, and core knows the names.
  throw Error(ErrorCode::kUnsupported, "backend", "is none that computes products");
}

}  // namespace

Product product_of(const core::MatmulProblem& problem) {
  Product product;
  product.rows = problem.rows;
  product.columns = problem.columns;
  product.depth = problem.depth;
  product.a_dtype = product.b_dtype = problem.dtype;
  product.tc16 = problem.tc16;
  product.a = problem.a;
  product.b = problem.b;
  product.out = problem.out;
  product.out_row_stride = problem.out_row_stride;
  product.out_dtype = problem.out_dtype;
  product.bias = problem.bias;
  product.bias_stride = problem.bias_stride;
  return product;
}

std::span<const ProductEngine> product_engines() { return kEngines; }

void segment_product(const SegmentProduct& product, const core::DeviceCall& call) {
  Product raw = product;
  raw.out_dtype = product.a_dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  raw.tc16 ? product_mma(raw, call) : product_fma(raw, call);
}

void matmul(const core::MatmulProblem& problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const Product product = product_of(problem);
  const ProductEngine& engine = engine_for(product, call);
  if (product.tc16) {
    require_tc16(call.device);
    require_tc16(engine, call.device);  // one that was asked for by name
  }
  engine.run(product, call);
}

std::size_t matmul_scratch_bytes(const core::MatmulProblem& problem, const core::DeviceCall& call) {
  const Product product = product_of(problem);
  return Scratch::padded(Scratch::rounded(engine_for(product, call).scratch_bytes(product, call.device)));
}

std::vector<core::ProductEngineAnswer> matmul_engines(const core::MatmulProblem& problem, Device device) {
  const Product product = product_of(problem);
  std::vector<core::ProductEngineAnswer> answers;
  for (const ProductEngine& engine : kEngines)
    answers.push_back({engine.name, engine.kernel, engine.by_name_only, engine.refusal(product, device)});
  return answers;
}

}  // namespace samebits::cuda
