#include "cli/record.h"

#include <nlohmann/json.hpp>

#include "cli/cli_error.h"
#include "cli/digest.h"
#include "cli/logp_settings.h"

namespace samebits::cli {
namespace {

using Metadata = std::map<std::string, std::string>;
using Shape = std::vector<std::int64_t>;

// {"dtype":"BF16","shape":[4,17,32000],"digest":"0123456789abcdef"}
std::string input_json(ElementType type, const Shape& shape, std::uint64_t digest) {
  nlohmann::ordered_json json;
  json["dtype"] = element_type_name(type);
  json["shape"] = shape;
  json["digest"] = digest_text(digest);
  return json.dump();
}

// Adds what the record says of one input, if it says anything of it.
template <class DigestOf>
void compare(const Metadata& metadata, const char* key, const char* name, ElementType type,
             const Shape& shape, DigestOf&& digest, std::vector<RecordedInput>& inputs) {
  const auto entry = metadata.find(key);
  if (entry == metadata.end()) return;
  const RecordedTensor recorded = recorded_tensor(entry->second, key);
  if (recorded.dtype != element_type_name(type) || recorded.shape != shape) {
    throw CliError(std::string(name) + ": is " + std::string(element_type_name(type)) + " " +
                   shape_text(shape) + "; the record was made of " + shown(recorded.dtype) + " " +
                   shape_text(recorded.shape));
  }
  if (recorded.digest) inputs.push_back({name, *recorded.digest, digest_text(digest())});
}

}  // namespace

std::pair<std::string, std::string> rows_entry(const LogpJob& job) {
  const FileTensor& source = job.inputs().source;
  return {job.inputs().head == nullptr ? record_key::kLogits : record_key::kHidden,
          input_json(source.type, source.shape, job.digest())};
}

Metadata record_metadata(const LogpJob& job) {
  const Head* head = job.inputs().head;
  Metadata metadata = {
      {record_key::kFormat, job.plan().op + ".1"},
      {record_key::kContract, job.plan().contract},
      rows_entry(job),
      {record_key::kProvenance, job.plan().provenance_json},
      {record_key::kVersion, std::string(version())},
  };
  if (head == nullptr) return metadata;
  metadata[record_key::kWeight] =
      input_json(head->type(), {head->vocab(), head->width()}, head->weight_digest(job.vocab()));
  if (head->bias_source() != nullptr) {
    metadata[record_key::kBias] = input_json(head->type(), {head->vocab()}, head->bias_digest(job.vocab()));
  }
  return metadata;
}

std::vector<RecordedInput> recorded_inputs(const Metadata& metadata, const LogpJob& job) {
  std::vector<RecordedInput> inputs;
  const FileTensor& source = job.inputs().source;
  const Head* head = job.inputs().head;
  compare(
      metadata, head == nullptr ? record_key::kLogits : record_key::kHidden, job.source_name(), source.type,
      source.shape, [&] { return job.digest(); }, inputs);
  if (head == nullptr) return inputs;
  const bool with_bias = head->bias_source() != nullptr;
  if (metadata.contains(record_key::kWeight) && metadata.contains(record_key::kBias) != with_bias) {
    throw CliError(with_bias ? "--bias: was given; the record was made without one"
                             : "--bias: is missing; the record was made with one");
  }
  compare(
      metadata, record_key::kWeight, "weight", head->type(), {head->vocab(), head->width()},
      [&] { return head->weight_digest(job.vocab()); }, inputs);
  if (with_bias) {
    compare(
        metadata, record_key::kBias, "bias", head->type(), {head->vocab()},
        [&] { return head->bias_digest(job.vocab()); }, inputs);
  }
  return inputs;
}

}  // namespace samebits::cli
