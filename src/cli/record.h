// The recorded file: what `logp` writes and `audit` reads. docs/cli.md describes it for other writers.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/logp_job.h"

namespace samebits::cli {

/// Names of the tensors in a recorded file.
namespace record_tensor {
inline constexpr const char* kLogp = "logp";
inline constexpr const char* kLse = "lse";
inline constexpr const char* kEntropy = "entropy";
inline constexpr const char* kTargets = "targets";
inline constexpr const char* kRowTemperature = "temperature";
inline constexpr const char* kRows = "rows";
}  // namespace record_tensor

/// Keys of its metadata.
namespace record_key {
inline constexpr const char* kFormat = "samebits.format";          // "logp.1"
inline constexpr const char* kContract = "samebits.contract";      // "row.v1"
inline constexpr const char* kLogits = "samebits.logits";          // dtype, shape and digest of the logits
inline constexpr const char* kProvenance = "samebits.provenance";  // the library's plan
inline constexpr const char* kVersion = "samebits.version";
}  // namespace record_key

inline constexpr const char* kRecordFormat = "logp.1";

/// Metadata of the record of a job.
std::map<std::string, std::string> record_metadata(const LogpJob& job);

/// The digest in a record's "samebits.logits", or nothing when the record carries none. Throws CliError when that entry
/// is malformed or gives another element type or shape than the logits of `job`.
std::optional<std::string> recorded_digest(const std::map<std::string, std::string>& metadata,
                                           const LogpJob& job);

}  // namespace samebits::cli
