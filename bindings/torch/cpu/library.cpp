// The operators of the namespace `samebits`: every schema, and those that take no tensor.
#include "../convert.h"

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

}  // namespace

#define SAMEBITS_PLAN_REQUEST                                                                             \
  "(str op, str dtype, str device, str contract, bool row_temperature, bool rows, bool keep_unselected, " \
  "int vocab, float temperature, int? ignore_index, str on_invalid, int? vocab_size, bool binary64, "     \
  "str backend) -> str"

#define SAMEBITS_HEAD "Tensor hidden, Tensor weight, Tensor targets, Tensor? bias, "
#define SAMEBITS_HEAD_UPSTREAM                                                                            \
  "Tensor row_max, Tensor row_sum, Tensor row_entropy_sum, Tensor? grad_logp, Tensor? grad_lse, Tensor? " \
  "grad_entropy, "

STABLE_TORCH_LIBRARY(samebits, library) {
  library.def("version() -> str");
  library.def("backends() -> str");
  library.def("plan" SAMEBITS_PLAN_REQUEST);
  // Answered by the CUDA library, when it is loaded.
  library.def("cuda_version() -> str");
  library.def("cuda_plan" SAMEBITS_PLAN_REQUEST);
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
  // As logp_forward. `saved`: P of the first rows that take part, at most `saved_rows`, columns rounded up to a
  // multiple of 64; no rows on a CPU. Backward computes again what is not there, and cannot change a bit by it.
  library.def("linear_logp_forward(" SAMEBITS_HEAD
              "bool lse, bool entropy, bool stats, str contract, int saved_rows, " SAMEBITS_LOGP_OPTIONS
              ") -> (Tensor logp, Tensor lse, Tensor entropy, Tensor row_max, Tensor row_sum, Tensor "
              "row_entropy_sum, Tensor saved)");
  // Gradients not asked for have no elements.
  library.def(
      "linear_logp_backward(" SAMEBITS_HEAD SAMEBITS_HEAD_UPSTREAM
      "bool to_hidden, bool to_weight, bool to_bias, str contract, Tensor? saved, " SAMEBITS_LOGP_OPTIONS
      ") -> (Tensor grad_hidden, Tensor grad_weight, Tensor grad_bias)");
  // The gradient of weight is added to the caller's buffer instead.
  library.def("linear_logp_backward_into(" SAMEBITS_HEAD SAMEBITS_HEAD_UPSTREAM
              "Tensor(a!) grad_weight_accumulator, bool to_hidden, bool to_bias, str contract, Tensor? "
              "saved, " SAMEBITS_LOGP_OPTIONS ") -> (Tensor grad_hidden, Tensor grad_bias)");
  library.def(
      "embedding(Tensor ids, Tensor weight, int? padding_idx=None, str on_invalid='nan', str backend='auto') "
      "-> "
      "Tensor");
  // The gradient of a table of `vocab` rows, from the upstream of what was looked up.
  library.def(
      "embedding_backward(Tensor ids, Tensor grad, int vocab, int? padding_idx=None, str backend='auto') -> "
      "Tensor");
  // The same added to the caller's buffer.
  library.def(
      "embedding_backward_into(Tensor ids, Tensor grad, Tensor(a!) grad_accumulator, int? padding_idx=None, "
      "str "
      "backend='auto') -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(samebits, CompositeExplicitAutograd, library) {
  library.impl("version", TORCH_BOX(&version_string));
  library.impl("backends", TORCH_BOX(&backend_lines));
  library.impl("plan", TORCH_BOX(&plan_json));
}

}  // namespace samebits::torch_binding
