#include "cli/record.h"

#include <nlohmann/json.hpp>

#include "cli/cli_error.h"

namespace samebits::cli {

std::map<std::string, std::string> record_metadata(const LogpJob& job) {
  return {
      {record_key::kFormat, kRecordFormat},           {record_key::kContract, job.plan().contract},
      {record_key::kLogits, job.logits_json()},       {record_key::kProvenance, job.plan().provenance_json},
      {record_key::kVersion, std::string(version())},
  };
}

std::optional<std::string> recorded_digest(const std::map<std::string, std::string>& metadata,
                                           const LogpJob& job) {
  const auto entry = metadata.find(record_key::kLogits);
  if (entry == metadata.end()) return std::nullopt;
  const auto recorded = nlohmann::json::parse(entry->second, nullptr, false);
  const auto actual = nlohmann::json::parse(job.logits_json());
  if (!recorded.is_object()) throw CliError(std::string(record_key::kLogits) + ": is not a JSON object");
  for (const char* field : {"dtype", "shape"}) {
    if (recorded.contains(field) && recorded[field] != actual[field]) {
      throw CliError(std::string("logits: have the ") + field + " " + actual[field].dump() +
                     "; the record was made of " +
                     shown(recorded[field].dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    }
  }
  if (!recorded.contains("digest")) return std::nullopt;
  if (!recorded["digest"].is_string())
    throw CliError(std::string(record_key::kLogits) + ": digest is not a string");
  return recorded["digest"].get<std::string>();
}

}  // namespace samebits::cli
