#include "cuda/cublaslt.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <type_traits>

#include <samebits/error.h>

namespace samebits::cuda {
namespace {

CublasLt load() {
  CublasLt library{};
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    library.problem = name + " cannot be loaded (" + (reason != nullptr ? reason : "no reason given") + ")";
    return library;
  }
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr) library.problem = name + " has no " + symbol;
  };
  find(library.create, "cublasLtCreate");
  find(library.desc_create, "cublasLtMatmulDescCreate");
  find(library.desc_destroy, "cublasLtMatmulDescDestroy");
  find(library.desc_set, "cublasLtMatmulDescSetAttribute");
  find(library.layout_create, "cublasLtMatrixLayoutCreate");
  find(library.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(library.preference_create, "cublasLtMatmulPreferenceCreate");
  find(library.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(library.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(library.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(library.config_get, "cublasLtMatmulAlgoConfigGetAttribute");
  find(library.matmul, "cublasLtMatmul");
  return library;
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kFloat32 ? CUDA_R_32F : dtype == DType::kFloat16 ? CUDA_R_16F : CUDA_R_16BF;
}

// The heuristic's first choice among the algorithms that need no scratch and leave K in one piece.
cublasLtMatmulAlgo_t choose(const CublasLt& lt, const CublasLtProduct& p) {
  cublasLtMatmulPreference_t preference;
  check(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(lt.preference_set(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(attribute, std::uint32_t{16});
  cublasLtMatmulHeuristicResult_t found[32];
  int count = 0;
  const cublasStatus_t status =
      lt.heuristic(p.handle, p.desc, p.b, p.a, p.out, p.out, preference, 32, found, &count);
  lt.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) count = 0;
  for (int i = 0; i < count; ++i) {
    std::int32_t split = 0;
    std::uint32_t reduction = 0;
    std::size_t written = 0;
    check(lt.config_get(&found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split, sizeof split, &written),
          "cublasLtMatmulAlgoConfigGetAttribute");
    check(lt.config_get(&found[i].algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof reduction,
                        &written),
          "cublasLtMatmulAlgoConfigGetAttribute");
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize == 0 &&
        (split == 0 || split == 1) && reduction == CUBLASLT_REDUCTION_SCHEME_NONE)
      return found[i].algo;
  }
  throw Error(
      ErrorCode::kUnsupported, "backend",
      "is 'cublaslt', which has no algorithm for this product that leaves K in one piece; may be 'auto' or "
      "'cuda'");
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt library = load();
  return library;
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorCode::kUnsupported, what,
                "failed with cuBLAS status " + std::to_string(static_cast<int>(status)));
}

// Column-major, out transposed is b transposed times a transposed. Entries live as long as the process.
const CublasLtProduct& cublaslt_product(const CublasLtKey& key) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  static std::map<CublasLtKey, CublasLtProduct> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const CublasLt& lt = cublaslt();
  cublasLtHandle_t& handle = handles[key.device];
  if (handle == nullptr) check(lt.create(&handle), "cublasLtCreate");
  CublasLtProduct p{handle, {}, {}, {}, {}, {}};
  check(lt.desc_create(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(lt.desc_set(p.desc, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, key.dense_b);
  set(CUBLASLT_MATMUL_DESC_TRANSB, !key.dense_a);
  const auto layout = [&](cublasLtMatrixLayout_t& to, DType dtype, std::int64_t rows, std::int64_t columns,
                          std::int64_t lead) {
    check(lt.layout_create(&to, type_of(dtype), static_cast<std::uint64_t>(rows),
                           static_cast<std::uint64_t>(columns), lead),
          "cublasLtMatrixLayoutCreate");
  };
  layout(p.b, key.dtype, key.dense_b ? key.depth : key.columns, key.dense_b ? key.columns : key.depth,
         key.lead_b);
  layout(p.a, key.dtype, key.dense_a ? key.depth : key.rows, key.dense_a ? key.rows : key.depth, key.lead_a);
  layout(p.out, key.out_dtype, key.columns, key.rows, key.lead_out);
  p.algo = choose(lt, p);
  return known.emplace(key, p).first->second;
}

}  // namespace samebits::cuda
