// What a logp call means, as the command line gives it and as a recorded provenance carries it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <samebits/logp.h>

namespace samebits::cli {

struct LogpSettings {
  double temperature = 1.0;
  std::optional<std::int64_t> ignore_index;
  std::optional<std::int64_t> vocab_size;
  OnInvalid on_invalid = OnInvalid::kZero;
  Precision precision = Precision::kFromLogits;

  /// The library's options; per-row temperature and row list are added by whoever has them.
  LogpOptions options() const;
};

/// A recorded provenance (see samebits::plan), as far as it decides bits.
struct RecordedMeaning {
  LogpSettings settings;
  std::string contract;
  bool head = false;             // of linear_logp: hidden states and a head, not logits
  bool row_temperature = false;  // one temperature a row was given
  bool rows = false;             // a row list was given

  /// The product's contract as MatmulOptions::contract names it.
  std::string product() const { return contract.starts_with("tc16") ? "tc16" : "fma"; }
};

/// Reads a provenance. Throws CliError naming `source` and the field when the text is no provenance of a logp or linear_logp call, a
/// field that decides bits is missing or has a value that is not allowed, or "semantics" has a field unknown here.
RecordedMeaning meaning_from_provenance(const std::string& text, const std::string& source);

/// What a record says about a tensor it was made of.
struct RecordedTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::optional<std::string> digest;
};

/// Reads {"dtype": ..., "shape": [...], "digest": ...}. Throws CliError naming `source` when it is anything else.
RecordedTensor recorded_tensor(const std::string& text, const std::string& source);

/// "zero", "nan" or "raise"; throws CliError for another word.
OnInvalid on_invalid_from_name(const std::string& name);
/// "from_logits" or "fp64"; throws CliError for another word.
Precision precision_from_name(const std::string& name);

}  // namespace samebits::cli
