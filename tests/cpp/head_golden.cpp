#include "head_golden.h"

#include "golden.h"

namespace samebits::test {
namespace {

const char* contract_of(const HeadCase& head) {
  if (head.tc16()) return "tc16.v1+row.v1";
  return head.hidden.dtype == DType::kFloat64 ? "fma64.v1+row64.v1" : "fma.v1+row.v1";
}

// Seven rows, one of them padding and one confident, in 300 columns, 3 of them padding.
HeadCase golden_head(DType dtype, const char* contract, bool entropy) {
  Rng rng(0x4ead + static_cast<std::uint64_t>(dtype));
  HeadCase head = random_head_case(rng, 7, 300, 20, dtype);
  head.contract = contract;
  head.bias = normal_elements(rng, dtype, 300);
  head.logp.vocab = 297;
  head.logp.temperature = 0.75;
  for (std::int64_t& target : head.logp.targets) target = rng.below(297);
  head.logp.targets[2] = -100;
  head.logp.targets[6] = head.logp.targets[5];
  for (std::int64_t k = 0; k < 20; ++k)
    set_element(head.hidden, 60 + k, 3 * element_value(head.weight, head.logp.targets[3] * 20 + k));
  head.logp.grad_lse = normal_elements(rng, head.logp.real(), 7);
  if (entropy) head.logp.grad_entropy = normal_elements(rng, head.logp.real(), 7);
  return head;
}

void add(nlohmann::ordered_json& record, const char* name, const Values& values) {
  record[std::string(name) + "_fnv1a64"] =
      digest(values.bytes.data(), static_cast<std::int64_t>(values.bytes.size()));
  std::string samples;
  for (std::int64_t i = 0; i < values.count(); i += values.count() / 9)
    samples += (i ? " " : "") + hex_element(values, i);
  record[name] = samples;
}

}  // namespace

std::vector<HeadGolden> head_golden_cases() {
  std::vector<HeadGolden> cases;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16})
    for (const char* contract : {"auto", "fma"})
      for (const bool entropy : {false, true})
        if (dtype_size(dtype) == 2 || std::string(contract) == "auto")
          cases.push_back({std::string(dtype_name(dtype)) + (entropy ? " entropy" : ""),
                           golden_head(dtype, contract, entropy)});
  return cases;
}

nlohmann::ordered_json golden_record(const HeadGolden& golden, const HeadGradients& gradients) {
  nlohmann::ordered_json record;
  record["contract"] = contract_of(golden.head);
  record["name"] = golden.name;
  add(record, "grad_hidden", gradients.hidden);
  add(record, "grad_weight", gradients.weight);
  add(record, "grad_bias", gradients.bias);
  return record;
}

}  // namespace samebits::test
