#include "cli/audit_state.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/atomic_file.h"
#include "cli/bounded_json.h"
#include "cli/cli_error.h"
#include "cli/digest.h"
#include "cli/interrupt.h"

namespace samebits::cli {
namespace {

constexpr const char* kFormat = "samebits.audit.1";
constexpr std::size_t kLargest = 1 << 20;  // bytes of a state; one of ours has about two thousand
constexpr std::chrono::seconds kPause{1};

// Paths may hold any bytes; JSON may not.
std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

nlohmann::ordered_json file_identity(const MappedFile& file) {
  constexpr std::size_t kBeginning = 1 << 16;
  std::error_code error;
  const auto path = std::filesystem::canonical(file.path(), error);
  nlohmann::ordered_json json;
  json["path"] = error ? file.path() : path.string();
  json["bytes"] = file.bytes().size();
  json["modified_ns"] = file.modified_ns();
  json["beginning"] = digest_text(row_digest(file.bytes().first(std::min(kBeginning, file.bytes().size()))));
  return json;
}

AuditState::AuditState(std::string path, bool asked_for, Json identity)
    : path_(std::move(path)), asked_for_(asked_for), identity_(std::move(identity)) {}

std::optional<AuditState::Json> AuditState::load() {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path_, error))) return std::nullopt;
  const MappedFile file(path_);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const Json json = text.size() <= kLargest ? bounded_json(text) : Json();
  const auto is_object = [&](const char* key) { return json.contains(key) && json.at(key).is_object(); };
  if (!json.is_object() || !json.contains("format") || json.at("format") != kFormat ||
      !is_object("identity") || !is_object("progress")) {
    throw CliError(shown(path_) + ": is not the state of an audit; name another file with --state");
  }
  const Json& recorded = json.at("identity");
  Json keys = identity_;
  keys.update(recorded);
  for (const auto& [key, ignored] : keys.items()) {
    const auto value = [&, &name = key](const Json& object) {
      return object.contains(name) ? text_of(object.at(name)) : "absent";
    };
    if (value(recorded) == value(identity_)) continue;
    constexpr std::size_t kShown = 600;  // of a file's path, mostly
    throw CliError(shown(path_) + ": is the state of another audit: " + shown(key) + " was " +
                   value(recorded).substr(0, kShown) + " and is " + value(identity_).substr(0, kShown) +
                   "; delete the file to begin again, or name another with --state");
  }
  exists_ = true;
  return json.at("progress");
}

void AuditState::save(const Json& progress, const std::string& words) {
  if (gave_up_) return;
  const Json json = {{"format", kFormat}, {"identity", identity_}, {"progress", progress}};
  try {
    replace_file(path_, text_of(json) + "\n");
  } catch (const CliError& error) {
    if (asked_for_) throw;
    gave_up_ = true;
    std::fprintf(stderr, "samebits: warning: %s; this audit cannot be resumed (see --state)\n", error.what());
    return;
  }
  set_parting_words(words);  // at once: a signal may come while the disk is slow
  sync_folder_of(path_);
  exists_ = true;
  last_ = Clock::now();
}

void AuditState::save_at_times(const Json& progress, const std::string& words) {
  if (Clock::now() - last_ >= kPause) save(progress, words);
}

void AuditState::remove() {
  set_parting_words({});
  if (exists_) ::unlink(path_.c_str());
  exists_ = false;
}

}  // namespace samebits::cli
