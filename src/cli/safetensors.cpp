#include "cli/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/cli_error.h"

namespace samebits::cli {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own reader

struct Entry {
  FileTensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Takes the events of nlohmann's (iterative) parser and accepts the one grammar of the format; a document tree would
// hide duplicate keys and would be built before anything could refuse it.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem = "malformed header";

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) return enter(State::kNames);
    if (state_ == State::kName && name_ == "__metadata__") return enter(State::kMetadata);
    if (state_ == State::kName) {
      entries.push_back({});
      entries.back().tensor.name = name_;
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
      return enter(State::kFields);
    }
    return refuse("an object where the format has none");
  }

  bool key(string_t& text) override {
    if (state_ == State::kNames) {
      name_ = text;
      if (!names_.insert(text).second) return refuse("tensor " + shown(text) + " occurs twice");
      return enter(State::kName);
    }
    key_ = text;
    if (state_ == State::kMetadata) {
      if (metadata.contains(text)) return refuse("metadata key " + shown(text) + " occurs twice");
      return enter(State::kMetadataValue);
    }
    bool* seen = text == "dtype"          ? &seen_dtype_
                 : text == "shape"        ? &seen_shape_
                 : text == "data_offsets" ? &seen_offsets_
                                          : nullptr;
    if (seen == nullptr || *seen) return refuse("unexpected or repeated field " + shown(text), true);
    *seen = true;
    return enter(text == "dtype" ? State::kDtype : text == "shape" ? State::kShape : State::kOffsets);
  }

  bool string(string_t& text) override {
    if (state_ == State::kMetadataValue) {
      metadata.emplace(key_, text);
      return enter(State::kMetadata);
    }
    if (state_ != State::kDtype) return refuse("a string where the format has none");
    const auto type = element_type_from_name(text);
    if (!type) return refuse("unknown dtype " + shown(text), true);
    entries.back().tensor.type = *type;
    return enter(State::kFields);
  }

  bool start_array(std::size_t) override {
    numbers_.clear();
    if (state_ == State::kShape) return enter(State::kShapeNumbers);
    if (state_ == State::kOffsets) return enter(State::kOffsetNumbers);
    return refuse("an array where the format has none");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kShapeNumbers && state_ != State::kOffsetNumbers) return other("number");
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return refuse("a number is too large", true);
    if (numbers_.size() == kMaxFileRank) return refuse("more than 32 numbers in " + shown(key_), true);
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool end_array() override {
    if (state_ == State::kShapeNumbers) {
      entries.back().tensor.shape = numbers_;
      return enter(State::kFields);
    }
    if (numbers_.size() != 2) return refuse("data_offsets is not two numbers", true);
    entries.back().begin = static_cast<std::uint64_t>(numbers_[0]);
    entries.back().end = static_cast<std::uint64_t>(numbers_[1]);
    return enter(State::kFields);
  }

  bool end_object() override {
    if (state_ == State::kFields && !(seen_dtype_ && seen_shape_ && seen_offsets_)) {
      return refuse("one of dtype, shape, data_offsets is missing", true);
    }
    return enter(state_ == State::kNames ? State::kDone : State::kNames);
  }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("boolean"); }
  bool number_integer(number_integer_t) override { return other("negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return other("non-integer or too large number");
  }
  bool binary(binary_t&) override { return other("binary value"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse("the header is not valid JSON near its byte " + std::to_string(position));
  }

 private:
  enum class State {
    kStart,
    kNames,
    kName,
    kFields,
    kDtype,
    kShape,
    kShapeNumbers,
    kOffsets,
    kOffsetNumbers,
    kMetadata,
    kMetadataValue,
    kDone,
  };

  bool enter(State next) {
    state_ = next;
    return true;
  }
  bool refuse(const std::string& what, bool in_tensor = false) {
    problem = in_tensor ? "tensor " + shown(name_) + ": " + what : what;
    return false;
  }
  bool other(const char* kind) { return refuse(std::string("a ") + kind + " where the format has none"); }

  State state_ = State::kStart;
  std::set<std::string> names_;
  std::string name_, key_;
  std::vector<std::int64_t> numbers_;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw CliError(shown(path) + ": not a readable safetensors file: " + what);
}

// Every range must have the size of its tensor, and together they must tile the data from 0 to its end.
void place_tensors(std::vector<Entry>& entries, std::span<const std::byte> data, const std::string& path) {
  for (Entry& entry : entries) {
    const std::string tensor = "tensor " + shown(entry.tensor.name) + ": ";
    if (entry.begin > entry.end || entry.end > data.size()) {
      fail(path, tensor + "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                     "] lie outside the " + std::to_string(data.size()) + " bytes of data");
    }
    const auto elements = element_count(entry.tensor.shape);
    const auto size = elements ? byte_count(entry.tensor.type, *elements) : std::nullopt;
    if (!size)
      fail(path, tensor + "the size of shape " + shape_text(entry.tensor.shape) + " is not representable");
    if (*size != entry.end - entry.begin) {
      fail(path, tensor + "shape " + shape_text(entry.tensor.shape) + " of " +
                     std::string(element_type_name(entry.tensor.type)) + " needs " + std::to_string(*size) +
                     " bytes, data_offsets give " + std::to_string(entry.end - entry.begin));
    }
    entry.tensor.elements = *elements;
    entry.tensor.data = data.subspan(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(*size));
  }
  std::vector<const Entry*> by_offset;
  for (const Entry& entry : entries) by_offset.push_back(&entry);
  std::ranges::sort(by_offset, {}, [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
  std::uint64_t position = 0;
  for (const Entry* entry : by_offset) {
    if (entry->begin != position) {
      fail(path, "tensor " + shown(entry->tensor.name) + " begins at byte " + std::to_string(entry->begin) +
                     " of the data where " + std::to_string(position) + " was due (overlap or hole)");
    }
    position = entry->end;
  }
  if (position != data.size()) {
    fail(path, std::to_string(data.size() - position) + " bytes after the last tensor");
  }
}

}  // namespace

const FileTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &FileTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

SafetensorsFile read_safetensors(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < 8) fail(path, "it has " + std::to_string(bytes.size()) + " bytes, fewer than 8");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (length > kMaxHeader) {
    fail(path, "its header claims " + std::to_string(length) + " bytes, more than 100000000");
  }
  if (length > bytes.size() - 8) {
    fail(path, "truncated: its header claims " + std::to_string(length) + " bytes, " +
                   std::to_string(bytes.size() - 8) + " remain");
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + 8);
  if (length == 0 || text[0] != '{') fail(path, "its header does not begin with '{'");

  HeaderReader reader;
  if (!Json::sax_parse(text, text + length, &reader)) fail(path, reader.problem);
  place_tensors(reader.entries, bytes.subspan(8 + static_cast<std::size_t>(length)), path);

  SafetensorsFile file;
  file.metadata = std::move(reader.metadata);
  for (Entry& entry : reader.entries) file.tensors.push_back(std::move(entry.tensor));
  return file;
}

}  // namespace samebits::cli
