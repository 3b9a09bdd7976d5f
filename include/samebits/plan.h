// What would run and why, and the provenance that says which results share their bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <samebits/logp.h>
#include <samebits/view.h>

namespace samebits {

/// A backend of this build.
struct BackendInfo {
  std::string name;    ///< "avx512", "avx2", "neon", "scalar"
  bool available;      ///< can run on this machine
  std::string reason;  ///< why not, when it cannot
};

/// All backends of this build, fastest first.
std::vector<BackendInfo> backends();

/// Version of the library, "major.minor.patch".
std::string_view version();

/// The question put to plan().
struct PlanRequest {
  std::string op = "logp";        ///< "logp", "linear_logp", "matmul" or "embedding"
  DType dtype = DType::kFloat32;  ///< of logits, hidden, a or an embedding's weight
  Device device = {};             ///< where the operands live
  std::string backend = "auto";   ///< as ExecContext::backend
  std::string contract = "auto";  ///< as MatmulOptions::contract; ignored by logp and embedding
  LogpOptions options = {};       ///< semantics; row_temperature and rows count only as present or not.
                                  ///< Of an embedding on_invalid alone counts,
  std::optional<std::int64_t> padding_idx = std::nullopt;  ///< and this.
  std::int64_t vocab = 0;  ///< last extent of the logits or rows of weight; 0 when unknown
};

/// The answer: what would run, or every reason why not.
struct Plan {
  std::string op;                     ///< as asked
  std::string contract;               ///< e.g. "row.v1", "fma.v1+row.v1"
  std::string level;                  ///< determinism level, e.g. "cross_device"
  std::string backend;                ///< the backend chosen
  std::vector<std::string> kernels;   ///< kernel ids, e.g. "logp_forward/avx512"
  std::vector<std::string> refusals;  ///< empty when it can run
  std::string provenance_json;  ///< plain data; two results with equal contract and semantics share bits
};

/// Pure: looks at nothing but the request and the machine.
Plan plan(const PlanRequest& request);

}  // namespace samebits
