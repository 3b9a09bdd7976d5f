// What came of comparing one recorded tensor with what was recomputed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/file_tensor.h"

namespace samebits::cli {

struct Comparison {
  std::string name;
  const FileTensor* recorded = nullptr;
  std::int64_t differing = 0;
  std::int64_t first_row = -1;  // of the rows that differ; -1 when none does
  std::string recorded_value = {}, recomputed_value = {}, distance = {};  // of that row

  /// Takes in the rows from `first` on. Chunks come in row order.
  void add(std::int64_t first, std::span<const std::byte> computed);

  /// {"differing_rows": 1, "first_row": ..., "first_position": [...], "recorded": ..., "recomputed": ..., "distance": ...},
  /// all but the first only when a row differs. `shape` is the leading shape.
  nlohmann::ordered_json json(const std::vector<std::int64_t>& shape) const;
  /// Takes back what json() gave; false when it is something else.
  bool restore(const nlohmann::ordered_json& json);
};

/// Position of a flat row in the leading shape.
std::vector<std::int64_t> position_of(std::int64_t row, const std::vector<std::int64_t>& shape);

}  // namespace samebits::cli
