// How far an audit has come, in a small file: after a kill or a power cut the same command goes on from there.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/mapped_file.h"

namespace samebits::cli {

/// What tells an input file from another: its path, size, time of change and beginning (where headers are).
nlohmann::ordered_json file_identity(const MappedFile& file);

class AuditState {
 public:
  using Json = nlohmann::ordered_json;

  /// `identity` is an object: whatever decides the audit's result. When the state was not `asked_for`, an audit does
  /// without where it cannot be written.
  AuditState(std::string path, bool asked_for, Json identity);

  /// The progress kept by an earlier audit of the same identity; nothing when there is no file. Throws CliError when the file
  /// is no state, or the state of another audit: then the first field that differs is named.
  std::optional<Json> load();

  /// Replaces the file, durably and as a whole. `words` are shown when a signal ends the process from now on.
  void save(const Json& progress, const std::string& words);
  /// The same, but only when some seconds have passed since the last time: a save costs as much as a slow disk does.
  void save_at_times(const Json& progress, const std::string& words);
  /// The audit is finished.
  void remove();

  const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string path_;
  bool asked_for_;
  Json identity_;
  bool exists_ = false;   // written or read by this audit
  bool gave_up_ = false;  // it cannot be written, and that was said
  Clock::time_point last_ = Clock::now();
};

}  // namespace samebits::cli
