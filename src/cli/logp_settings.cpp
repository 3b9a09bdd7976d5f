#include "cli/logp_settings.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/cli_error.h"
#include "cli/file_tensor.h"

namespace samebits::cli {
namespace {

using Json = nlohmann::ordered_json;

// A field of an object, by the type it must have; the errors name it.
class Fields {
 public:
  Fields(const Json& object, std::string source) : object_(object), source_(std::move(source)) {
    if (!object.is_object()) throw CliError(source_ + ": is not a JSON object");
  }

  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "is missing");
    return *found;
  }
  std::string word(const char* key) const {
    if (!at(key).is_string()) fail(key, "is not a string");
    return at(key).get<std::string>();
  }
  bool flag(const char* key) const {
    if (!at(key).is_boolean()) fail(key, "is not true or false");
    return at(key).get<bool>();
  }
  std::optional<std::int64_t> optional_integer(const char* key) const {
    const Json& value = at(key);
    if (value.is_null()) return std::nullopt;
    const bool too_large =
        value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
    if (!value.is_number_integer() || too_large) fail(key, "is not an integer or null");
    return value.get<std::int64_t>();
  }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw CliError(source_ + ", field " + shown(key) + ": " + what);
  }

 private:
  const Json& object_;
  std::string source_;
};

}  // namespace

LogpOptions LogpSettings::options() const {
  LogpOptions options;
  options.temperature = temperature;
  options.ignore_index = ignore_index;
  options.vocab_size = vocab_size;
  options.on_invalid = on_invalid;
  options.precision = precision;
  return options;
}

OnInvalid on_invalid_from_name(const std::string& name) {
  if (name == "zero") return OnInvalid::kZero;
  if (name == "nan") return OnInvalid::kNan;
  if (name == "raise") return OnInvalid::kRaise;
  throw CliError("on_invalid: was " + shown(name) + "; it may be zero, nan or raise");
}

Precision precision_from_name(const std::string& name) {
  if (name == "from_logits") return Precision::kFromLogits;
  if (name == "fp64") return Precision::kFloat64;
  throw CliError("precision: was " + shown(name) + "; it may be from_logits or fp64");
}

RecordedMeaning meaning_from_provenance(const std::string& text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, false);
  const Fields top(json, source);
  const std::string op = top.word("op");
  if (op != "logp" && op != "linear_logp")
    top.fail("op", "was " + shown(op) + "; an audit takes records of logp and linear_logp");

  RecordedMeaning meaning;
  meaning.head = op == "linear_logp";
  meaning.contract = top.word("contract");
  if (meaning.contract == "row64.v1") meaning.settings.precision = Precision::kFloat64;

  const Fields semantics(top.at("semantics"), source + ", semantics");
  for (const auto& [key, value] : json["semantics"].items()) {
    if (key == "temperature") {
      meaning.row_temperature = value.is_string() && value.get<std::string>() == "per_row";
      if (meaning.row_temperature) continue;
      if (!value.is_number()) semantics.fail(key, "is not a number or \"per_row\"");
      meaning.settings.temperature = value.get<double>();
    } else if (key == "rows") {
      meaning.rows = semantics.flag("rows");
    } else if (key == "keep_unselected") {
      if (semantics.flag("keep_unselected"))
        semantics.fail(key, "is true; rows that were not computed cannot be audited");
    } else if (key == "vocab_size") {
      meaning.settings.vocab_size = semantics.optional_integer("vocab_size");
    } else if (key == "ignore_index") {
      meaning.settings.ignore_index = semantics.optional_integer("ignore_index");
    } else if (key == "on_invalid") {
      meaning.settings.on_invalid = on_invalid_from_name(semantics.word("on_invalid"));
    } else {
      semantics.fail(key, "is not known to this version and may decide bits");
    }
  }
  return meaning;
}

RecordedTensor recorded_tensor(const std::string& text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, false);
  const Fields fields(json, source);
  RecordedTensor tensor;
  tensor.dtype = fields.word("dtype");
  const Json& shape = fields.at("shape");
  if (!shape.is_array() || shape.size() > kMaxFileRank)
    fields.fail("shape", "is not a list of at most 32 extents");
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
      fields.fail("shape", "holds something that is no extent");
    }
    tensor.shape.push_back(extent.get<std::int64_t>());
  }
  if (json.contains("digest")) tensor.digest = fields.word("digest");
  return tensor;
}

}  // namespace samebits::cli
