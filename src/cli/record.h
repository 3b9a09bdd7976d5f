// The recorded file: what `logp` writes and `audit` reads. docs/cli.md describes it for other writers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

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
inline constexpr const char* kFormat = "samebits.format";          // "logp.1", "linear_logp.1"
inline constexpr const char* kContract = "samebits.contract";      // "row.v1"
inline constexpr const char* kLogits = "samebits.logits";          // dtype, shape and digest of the logits,
inline constexpr const char* kHidden = "samebits.hidden";          // or of the hidden states,
inline constexpr const char* kWeight = "samebits.weight";          // the weight
inline constexpr const char* kBias = "samebits.bias";              // and the bias, if there is one
inline constexpr const char* kProvenance = "samebits.provenance";  // the library's plan
inline constexpr const char* kVersion = "samebits.version";
}  // namespace record_key

/// Metadata of the record of a job. The digest of its rows is that of the rows run so far.
std::map<std::string, std::string> record_metadata(const LogpJob& job);

/// The one entry of that metadata which run() changes: key and value.
std::pair<std::string, std::string> rows_entry(const LogpJob& job);

/// An input as the record gives it and as it is here.
struct RecordedInput {
  std::string name;      // "logits", "hidden", "weight", "bias"
  std::string recorded;  // digest
  std::string found;     // digest; of the rows that of those run so far

  bool is_same() const { return recorded == found; }
};

/// The inputs that the record identifies: a record need not. Throws CliError when such an entry is malformed, gives another
/// element type or shape than here, or names a bias where there is none or none where there is one.
std::vector<RecordedInput> recorded_inputs(const std::map<std::string, std::string>& metadata,
                                           const LogpJob& job);

}  // namespace samebits::cli
