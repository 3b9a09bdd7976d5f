#include "cli/record.h"

#include "cli/cli_error.h"
#include "cli/logp_settings.h"

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
  const RecordedLogits recorded = recorded_logits(entry->second, record_key::kLogits);
  const FileTensor& logits = job.inputs().logits;
  if (recorded.dtype != element_type_name(logits.type) || recorded.shape != logits.shape) {
    throw CliError("logits: are " + std::string(element_type_name(logits.type)) + " " +
                   shape_text(logits.shape) + "; the record was made of " + shown(recorded.dtype) + " " +
                   shape_text(recorded.shape));
  }
  return recorded.digest;
}

}  // namespace samebits::cli
