// plan(): what a request would run, or every reason why it cannot. Provenance is written by hand: the library
// itself depends on no JSON package.
#include <samebits/plan.h>
#include <samebits/version.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "core/backend.h"
#include "core/device_backend.h"
#include "core/embedding_problem.h"
#include "core/product_checks.h"
#include "order/row.h"

namespace samebits {
namespace {

class JsonObject {
 public:
  // `value` is JSON already.
  JsonObject& raw(std::string_view key, std::string_view value) {
    text_ += text_.empty() ? "{" : ", ";
    text_ += quoted(key) + ": ";
    text_ += value;
    return *this;
  }
  JsonObject& add(std::string_view key, std::string_view value) { return raw(key, quoted(value)); }
  JsonObject& add(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  JsonObject& add(std::string_view key, double value) { return raw(key, number(value)); }
  JsonObject& add(std::string_view key, std::int64_t value) { return raw(key, std::to_string(value)); }
  JsonObject& add(std::string_view key, const std::vector<std::string>& values) {
    std::string list = "[";
    for (const std::string& value : values) list += (list.size() > 1 ? ", " : "") + quoted(value);
    return raw(key, list + "]");
  }
  std::string text() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  static std::string quoted(std::string_view value) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        result += '\\';
        result += c;
      } else if (byte < 0x20) {
        result += "\\u00";
        result += kHex[byte >> 4];
        result += kHex[byte & 15];
      } else {
        result += c;
      }
    }
    return result + '"';
  }

  // The shortest text that reads back as the same double.
  static std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    char buffer[40];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    std::string result(buffer, end);
    if (result.find_first_of(".e") == std::string::npos) result += ".0";
    return result;
  }

  std::string text_;
};

std::string quoted_name(std::string_view name) { return std::string("'").append(name).append("'"); }

// Runs a check that the call makes too, and keeps what it refuses in the same words.
template <class Check>
void keep_refusal(std::vector<std::string>& refusals, Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    refusals.push_back(error.what());
  }
}

// The contract's id; empty where there is none, which is refused.
std::string choose_contract(const PlanRequest& request, bool row64, std::vector<std::string>& refusals) {
  const bool wide = request.dtype == DType::kFloat64;
  const std::string row = row64 ? "row64.v1" : "row.v1";
  if (request.op == "embedding") return wide ? "embedding64.v1" : "embedding.v1";
  if (request.op == "logp") return row;
  std::string product;
  keep_refusal(refusals, [&] {
    const bool tc16 = core::check_contract(request.contract, request.dtype);
    product = wide ? "fma64.v1" : tc16 ? "tc16.v1" : "fma.v1";
  });
  return product.empty() || request.op == "matmul" ? product : product + "+" + row;
}

void check_options(const PlanRequest& request, std::vector<std::string>& refusals) {
  const LogpOptions& options = request.options;
  if (request.op == "embedding" && request.padding_idx && request.vocab > 0)
    keep_refusal(refusals, [&] { core::check_padding_idx(*request.padding_idx, request.vocab); });
  if (request.op != "logp" && request.op != "linear_logp") return;
  if (request.op == "linear_logp")
    keep_refusal(refusals, [&] { core::check_head_precision(options.precision, request.dtype); });
  if (!options.row_temperature) keep_refusal(refusals, [&] { core::check_temperature(options.temperature); });
  keep_refusal(refusals,
               [&] { core::true_vocab(options, request.vocab, request.op == "logp" ? "logits" : "weight"); });
}

const char* on_invalid_name(OnInvalid value) {
  switch (value) {
    case OnInvalid::kZero: return "zero";
    case OnInvalid::kNan: return "nan";
    case OnInvalid::kRaise: return "raise";
  }
  return "unknown";
}

std::string semantics_json(const PlanRequest& request, bool row64) {
  const LogpOptions& options = request.options;
  JsonObject semantics;
  if (request.op == "embedding") {
    semantics.add("on_invalid", std::string_view(on_invalid_name(options.on_invalid)));
    if (request.padding_idx) return semantics.add("padding_idx", *request.padding_idx).text();
    return semantics.raw("padding_idx", "null").text();
  }
  if (options.row_temperature)
    semantics.add("temperature", std::string_view("per_row"));
  else
    semantics.add("temperature",
                  row64 ? options.temperature : static_cast<double>(static_cast<float>(options.temperature)));
  const std::int64_t vocab = options.vocab_size.value_or(request.vocab);
  if (vocab > 0)
    semantics.add("vocab_size", vocab);
  else
    semantics.raw("vocab_size", "null");
  semantics.add("rows", bool{options.rows});
  semantics.add("keep_unselected", options.keep_unselected);
  if (options.ignore_index)
    semantics.add("ignore_index", *options.ignore_index);
  else
    semantics.raw("ignore_index", "null");
  semantics.add("on_invalid", std::string_view(on_invalid_name(options.on_invalid)));
  return semantics.text();
}

std::vector<std::string> kernel_ids(const std::string& op, const std::string& backend) {
  if (op == "logp")  // the last two: derivatives of higher order
    return {"logp_forward/" + backend, "logp_backward/" + backend, "probability/" + backend,
            "row_sum/" + backend};
  if (op == "embedding") return {"embedding_forward/" + backend, "embedding_backward/" + backend};
  if (op == "linear_logp") return {"linear_logp_forward/" + backend, "linear_logp_backward/" + backend};
  return {op + "/" + backend};
}

// What a plan says of a device beyond backend and kernels.
struct DeviceFacts {
  std::string name, probe;
  std::string gemm_backend;  // the product engine that is tried first
  std::string engines;       // a JSON object: of each product engine whether it is taken, or why not
};

// A product of ordinary extents and strides: dtype, contract and device are what counts in a plan.
core::MatmulProblem ordinary_product(DType dtype, bool tc16) {
  core::MatmulProblem problem;
  problem.rows = problem.columns = problem.depth = problem.out_row_stride = 64;
  problem.dtype = problem.out_dtype = dtype;
  problem.tc16 = tc16;
  problem.a = {nullptr, 64, 1};
  problem.b = {nullptr, 1, 64};
  return problem;
}

// Every engine that may be taken is a kernel of the plan: one that does not take the strides of a call leaves it to the next.
void plan_product(const PlanRequest& request, const ExecContext& context, Plan& result, DeviceFacts& facts) {
  const bool tc16 = result.contract == "tc16.v1";
  const core::MatmulProblem problem = ordinary_product(request.dtype, tc16);
  const core::DeviceBackend& backend = core::pick_product_backend(problem, request.device, context);
  if (tc16) facts.probe = backend.tc16_probe(request.device);
  const std::string_view name = core::make_device_call(request.device, context).engine;
  result.backend = backend.name;
  JsonObject engines;
  for (const core::ProductEngineAnswer& engine : backend.product_engines(problem, request.device)) {
    const bool taken = engine.refusal.empty() && (name.empty() ? !engine.by_name_only : name == engine.name);
    if (taken) {
      result.kernels.push_back("matmul/" + std::string(backend.name) + "-" +
                               backend.architecture(request.device) + "-" + engine.kernel);
      if (facts.gemm_backend.empty()) facts.gemm_backend = engine.name;
    }
    const std::string reason =
        name.empty() ? "runs only where it is asked for by name" : "another one was asked for";
    engines.add(engine.name, taken ? "taken" : engine.refusal.empty() ? reason : engine.refusal);
  }
  facts.engines = engines.text();
}

// A head of ordinary extents and strides, of the request's dtype and contract.
core::LinearLogpProblem ordinary_head(const PlanRequest& request, const Plan& result) {
  core::LinearLogpProblem head;
  head.logp.vocab = head.logp.columns = request.vocab > 0 ? request.vocab : order::kBlock;
  head.logp.rows = 1;
  head.logp.dtype = head.hidden.dtype = request.dtype;
  head.logp.binary64 = request.dtype == DType::kFloat64;
  head.tc16 = result.contract.starts_with("tc16");
  head.hidden_size = 64;
  head.weight = {nullptr, head.hidden_size, 1};
  return head;
}

// The engine that is taken is part of the kernels' ids.
void plan_head(const PlanRequest& request, const core::DeviceBackend& backend, Plan& result,
               DeviceFacts& facts) {
  JsonObject engines;
  for (const auto& engine : backend.linear_logp_engines(ordinary_head(request, result), request.device)) {
    const bool taken = engine.refusal.empty() && facts.gemm_backend.empty();
    if (taken) facts.gemm_backend = engine.name;
    engines.add(engine.name, taken                    ? "taken"
                             : engine.refusal.empty() ? "another one was taken"
                                                      : engine.refusal);
  }
  facts.engines = engines.text();
  result.kernels =
      kernel_ids("linear_logp", std::string(backend.name) + "-" + backend.architecture(request.device) + "-" +
                                    facts.gemm_backend);
}

// Fills in backend and kernels of a request on a device.
DeviceFacts plan_on_device(const PlanRequest& request, Plan& result) {
  ExecContext context;
  context.backend = request.backend;
  DeviceFacts facts;
  try {
    if (request.op == "matmul" && !result.contract.empty()) {
      facts.name = core::device_backend(request.device, "device").device_name(request.device);
      plan_product(request, context, result, facts);
      return facts;
    }
    const core::DeviceBackend& backend = core::pick_device_backend(request.device, context);
    result.backend = backend.name;
    facts.name = backend.device_name(request.device);
    if (request.op == "linear_logp" && !result.contract.empty()) plan_head(request, backend, result, facts);
    if (request.op == "logp" || request.op == "embedding")
      result.kernels = kernel_ids(request.op, result.backend + "-" + backend.architecture(request.device));
    if (result.contract.starts_with("tc16")) facts.probe = backend.tc16_probe(request.device);
  } catch (const Error& error) {
    result.refusals.push_back(error.what());
  }
  return facts;
}

}  // namespace

Plan plan(const PlanRequest& request) {
  Plan result;
  result.op = request.op;
  result.level = "cross_device";
  const bool known = request.op == "logp" || request.op == "linear_logp" || request.op == "matmul" ||
                     request.op == "embedding";
  const bool row64 = request.dtype == DType::kFloat64 || request.options.precision == Precision::kFloat64;
  if (!known)
    result.refusals.push_back("op: is " + quoted_name(request.op) +
                              "; may be 'logp', 'linear_logp', 'matmul' or 'embedding'");
  if (!is_floating(request.dtype))
    result.refusals.push_back("dtype: is " + std::string(dtype_name(request.dtype)) +
                              "; may be float32, bfloat16, float16 or float64");
  if (known && is_floating(request.dtype)) result.contract = choose_contract(request, row64, result.refusals);
  check_options(request, result.refusals);
  DeviceFacts facts;
  if (core::on_device(request.device)) {
    facts = plan_on_device(request, result);
  } else {
    try {
      result.backend = core::pick_backend(request.backend).name;
      if (known) result.kernels = kernel_ids(request.op, result.backend);
    } catch (const Error& error) {
      result.refusals.push_back(error.what());
    }
  }

  JsonObject provenance;
  provenance.add("samebits", std::string_view(kVersion)).add("op", std::string_view(result.op));
  provenance.add("contract", std::string_view(result.contract)).add("level", std::string_view(result.level));
  provenance.add("dtype", dtype_name(request.dtype));
  if (known && request.op != "matmul") provenance.raw("semantics", semantics_json(request, row64));
  provenance.add("device", request.device.type == DeviceType::kCpu ? std::string_view("cpu") : "cuda");
  if (!facts.name.empty()) provenance.add("device_name", std::string_view(facts.name));
  if (!facts.probe.empty()) provenance.add("device_probe", std::string_view(facts.probe));
  provenance.add("backend", std::string_view(result.backend)).add("kernels", result.kernels);
  if (!facts.gemm_backend.empty()) provenance.add("gemm_backend", std::string_view(facts.gemm_backend));
  if (!facts.engines.empty()) provenance.raw("engines", facts.engines);
  if (!result.refusals.empty()) provenance.add("refusals", result.refusals);
  result.provenance_json = provenance.text();
  return result;
}

}  // namespace samebits
