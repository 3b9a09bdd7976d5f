#include "cli/tensor_location.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "cli/cli_error.h"

namespace samebits::cli {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxIndex = 100'000'000;  // bytes, as for the header of a safetensors file

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}
bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw CliError(shown(path) + ": " + what);
}

// The index or the one file of a checkpoint's folder.
std::string entry_of(const std::string& folder) {
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    const std::string path = (fs::path(folder) / name).string();
    if (exists(path)) return path;
  }
  fail(folder, "is a folder with neither model.safetensors.index.json nor model.safetensors");
}

// The index as a tree; two entries of one name could each be meant, so they are refused.
Json parse_index(const MappedFile& file) {
  if (file.bytes().size() > kMaxIndex) {
    fail(file.path(), "is no index of a checkpoint: it has " + std::to_string(file.bytes().size()) +
                          " bytes, more than " + std::to_string(kMaxIndex));
  }
  std::map<int, std::set<std::string>> names;  // of the objects that are open, by depth
  std::string repeated;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) names[depth + 1].clear();
    if (event == Json::parse_event_t::key && !names[depth].insert(parsed.get<std::string>()).second) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  Json json = Json::parse(text, text + file.bytes().size(), watch, false);
  if (!repeated.empty()) fail(file.path(), shown(repeated) + " occurs twice");
  return json;
}

// Names like those of heads, for someone whose checkpoint calls it otherwise.
std::string likely_names(const Json& map) {
  constexpr std::size_t kListed = 8;
  std::size_t found = 0;
  std::string names;
  for (const auto& [name, file] : map.items()) {
    if (name.find("head") == std::string::npos && name.find("embed") == std::string::npos) continue;
    if (found++ < kListed) names += (names.empty() ? "" : ", ") + shown(name);
  }
  if (found > kListed) names += ", ...";
  return std::to_string(map.size()) + " others" + (names.empty() ? "" : ", among them " + names);
}

// The file that an index gives for `name`.
std::string file_of(const std::string& index, const std::string& name, const std::string& role) {
  const MappedFile file(index);
  const Json json = parse_index(file);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    fail(index, "is no index of a checkpoint: it has no object \"weight_map\"");
  }
  const auto entry = map->find(name);
  if (entry == map->end()) {
    fail(index, "has no tensor " + shown(name) + " (" + role + "); it has " + likely_names(*map));
  }
  const std::string shard = entry->is_string() ? entry->get<std::string>() : "";
  // The files of a checkpoint lie beside its index; nothing else is opened on its word.
  if (shard.empty() || shard == "." || shard == ".." ||
      shard.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    fail(index,
         "weight_map, " + shown(name) + ": is " + shown(shard) + "; it may be a file beside the index");
  }
  return (fs::path(index).parent_path() / shard).string();
}

}  // namespace

LocatedTensor locate_tensor(const std::string& place, const std::string& default_name,
                            const std::string& role) {
  std::string path = place, name = default_name;
  const std::size_t colons = place.rfind("::");
  if (colons != std::string::npos && !exists(place)) {
    path = place.substr(0, colons);
    name = place.substr(colons + 2);
  }
  if (path.empty() || name.empty())
    throw CliError(role + ": was " + shown(place) + "; it may be PLACE or PLACE::NAME");
  if (is_folder(path)) path = entry_of(path);
  if (path.ends_with(".json")) path = file_of(path, name, role);
  auto file = std::make_unique<TensorFile>(path);
  FileTensor tensor = file->tensor(name, role);
  return {std::move(file), std::move(tensor)};
}

}  // namespace samebits::cli
