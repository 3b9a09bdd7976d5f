// JSON from a file nobody vouches for, as a tree that may be copied and printed.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace samebits::cli {

/// A discarded value when `text` is malformed. What is nested more than 16 deep is left out: copying and printing a tree
/// recurse, and a hostile one would exhaust the stack.
inline nlohmann::ordered_json bounded_json(std::string_view text) {
  using Json = nlohmann::ordered_json;
  constexpr int kDeepest = 16;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  return Json::parse(text.begin(), text.end(), keep, false);
}

}  // namespace samebits::cli
