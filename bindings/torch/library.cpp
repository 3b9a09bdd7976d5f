// The operators of the namespace `samebits`: every schema, and those that take no tensor.
#include "convert.h"

namespace samebits::torch_binding {
namespace {

std::string version_string() { return std::string(version()); }

// One line per backend, fastest first: "NAME" when it can run here, else "NAME<tab>REASON".
std::string backend_lines() {
  std::string lines;
  for (const BackendInfo& backend : backends())
    lines += backend.name + (backend.available ? "" : "\t" + backend.reason) + "\n";
  return lines;
}

// The provenance of the plan, with its refusals if there are any, as JSON.
std::string plan_json(std::string op, std::string dtype, std::string device, std::string contract,
                      bool row_temperature, bool rows, bool keep_unselected, std::int64_t vocab,
                      double temperature, std::optional<std::int64_t> ignore_index, std::string on_invalid,
                      std::optional<std::int64_t> vocab_size, bool binary64, std::string backend) {
  return guarded([&] {
    PlanRequest request;
    request.op = op;
    request.dtype = parse_dtype(dtype);
    request.device.type = device == "cpu" ? DeviceType::kCpu : DeviceType::kCuda;
    request.backend = backend;
    request.contract = contract;
    request.options = make_options({}, {}, temperature, ignore_index, on_invalid, vocab_size, binary64);
    request.options.row_temperature.present = row_temperature;
    request.options.rows.present = rows;
    request.options.keep_unselected = keep_unselected;
    request.vocab = vocab;
    return plan(request).provenance_json;
  });
}

}  // namespace

STABLE_TORCH_LIBRARY(samebits, library) {
  library.def("version() -> str");
  library.def("backends() -> str");
  library.def(
      "plan(str op, str dtype, str device, str contract, bool row_temperature, bool rows, bool "
      "keep_unselected, "
      "int vocab, float temperature, int? ignore_index, str on_invalid, int? vocab_size, bool binary64, "
      "str backend) -> str");
  // logp alone: what inference calls.
  library.def("logp(Tensor logits, Tensor targets, " SAMEBITS_LOGP_OPTIONS ") -> Tensor");
  // Into the caller's buffer; rows that `rows` does not list keep their values.
  library.def("logp_out(Tensor logits, Tensor targets, Tensor(a!) out, " SAMEBITS_LOGP_OPTIONS ") -> ()");
  // Everything: outputs not asked for have no elements.
  library.def(
      "logp_forward(Tensor logits, Tensor targets, bool lse, bool entropy, bool stats, " SAMEBITS_LOGP_OPTIONS
      ") -> (Tensor logp, Tensor lse, Tensor entropy, Tensor row_max, Tensor row_sum, Tensor "
      "row_entropy_sum)");
  library.def(
      "logp_backward(Tensor logits, Tensor targets, Tensor row_max, Tensor row_sum, Tensor row_entropy_sum, "
      "Tensor? grad_logp, Tensor? grad_lse, Tensor? grad_entropy, " SAMEBITS_LOGP_OPTIONS ") -> Tensor");
  // What derivatives of higher order are made of.
  library.def(
      "probability(Tensor logits, Tensor targets, Tensor row_max, Tensor row_sum, " SAMEBITS_LOGP_OPTIONS
      ") -> Tensor");
  library.def("row_sum(Tensor values, str backend='auto') -> Tensor");
  library.def(
      "matmul(Tensor a, Tensor b, ScalarType? out_dtype=None, str contract='auto', str backend='auto', "
      "Tensor? bias=None) -> Tensor");
  library.def(
      "linear_logp_forward(Tensor hidden, Tensor weight, Tensor targets, Tensor? bias, bool lse, bool "
      "entropy, "
      "str contract, " SAMEBITS_LOGP_OPTIONS ") -> (Tensor logp, Tensor lse, Tensor entropy)");
}

STABLE_TORCH_LIBRARY_IMPL(samebits, CompositeExplicitAutograd, library) {
  library.impl("version", TORCH_BOX(&version_string));
  library.impl("backends", TORCH_BOX(&backend_lines));
  library.impl("plan", TORCH_BOX(&plan_json));
}

}  // namespace samebits::torch_binding
