#include "embedding_golden.h"

#include "golden.h"

namespace samebits::test {
namespace {

// 2600 ids of 7 rows, most of them of one: three segments.
EmbeddingCase golden_embedding(DType dtype, bool accumulate) {
  Rng rng(0xe3b + static_cast<std::uint64_t>(dtype));
  EmbeddingCase c = embedding_case(rng, 2600, 7, 6, dtype);
  for (std::int64_t& id : c.ids)
    if (!rng.chance(10)) id = 4;
  c.ids[17] = -100;
  c.ids[18] = 7;
  c.options.padding_idx = 1;
  c.accumulate = accumulate;
  return c;
}

std::string digest_of(const Values& values) {
  return digest(values.bytes.data(), static_cast<std::int64_t>(values.bytes.size()));
}

}  // namespace

std::vector<EmbeddingGolden> embedding_golden_cases() {
  std::vector<EmbeddingGolden> cases;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16})
    for (const bool accumulate : {false, true})
      cases.push_back({std::string(dtype_name(dtype)) + (accumulate ? " accumulated" : ""),
                       golden_embedding(dtype, accumulate)});
  return cases;
}

nlohmann::ordered_json golden_record(const EmbeddingGolden& golden, const EmbeddingResult& result) {
  nlohmann::ordered_json record;
  record["contract"] = result.out.dtype == DType::kFloat64 ? "embedding64.v1" : "embedding.v1";
  record["name"] = golden.name;
  record["out_fnv1a64"] = digest_of(result.out);
  record["grad_weight_fnv1a64"] = digest_of(result.gradient);
  std::string samples;
  for (std::int64_t i = 0; i < result.gradient.count(); i += 5)
    samples += (i ? " " : "") + hex_element(result.gradient, i);
  record["grad_weight"] = samples;
  return record;
}

}  // namespace samebits::test
