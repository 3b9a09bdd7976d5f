#include "cli/comparison.h"

#include <nlohmann/json.hpp>

#include "cli/bits.h"

namespace samebits::cli {

void Comparison::add(std::int64_t first, std::span<const std::byte> computed) {
  const std::size_t size = static_cast<std::size_t>(element_bits(recorded->type)) / 8;
  const auto expected = recorded->data.subspan(static_cast<std::size_t>(first) * size, computed.size());
  const auto at = first_difference(expected, computed, size);
  if (!at) return;
  differing += count_differences(expected, computed, size);
  if (first_row >= 0) return;
  first_row = first + *at;
  const auto a = expected.subspan(static_cast<std::size_t>(*at) * size, size);
  const auto b = computed.subspan(static_cast<std::size_t>(*at) * size, size);
  recorded_value = value_text(a);
  recomputed_value = value_text(b);
  distance = ulp_text(a, b);
}

nlohmann::ordered_json Comparison::json(const std::vector<std::int64_t>& shape) const {
  nlohmann::ordered_json json;
  json["differing_rows"] = differing;
  if (differing == 0) return json;
  json["first_row"] = first_row;
  json["first_position"] = position_of(first_row, shape);
  json["recorded"] = recorded_value;
  json["recomputed"] = recomputed_value;
  json["distance"] = distance;
  return json;
}

bool Comparison::restore(const nlohmann::ordered_json& json) {
  const auto number = [&](const char* key, std::int64_t& value) {
    if (!json.contains(key) || !json[key].is_number_integer()) return false;
    value = json[key].get<std::int64_t>();
    return value >= 0;
  };
  const auto text = [&](const char* key, std::string& value) {
    if (!json.contains(key) || !json[key].is_string()) return false;
    value = json[key].get<std::string>();
    return true;
  };
  if (!json.is_object() || !number("differing_rows", differing)) return false;
  return differing == 0 || (number("first_row", first_row) && text("recorded", recorded_value) &&
                            text("recomputed", recomputed_value) && text("distance", distance));
}

std::vector<std::int64_t> position_of(std::int64_t row, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; row /= shape[i]) position[i] = row % shape[i];
  return position;
}

}  // namespace samebits::cli
