// A logp call after its arguments were checked: what a backend gets to see.
#pragma once

#include <cstdint>

#include "core/row_index.h"

namespace samebits::core {

// How a row is to be treated.
enum class RowKind : std::uint8_t {
  kLive,  // valid id, selected
  kZero,  // padding: logp 0, lse -inf, entropy 0, gradient +0
  kNan,   // invalid id under OnInvalid::kNan: NaN outputs, gradient +0
  kKeep,  // not selected and keep_unselected: outputs untouched
};

// What decides how a row is to be treated.
struct RowRules {
  std::int64_t vocab = 0;
  const std::uint64_t* selected = nullptr;  // bit r of word r / 64; null when every row is
  bool keep_unselected = false;
  bool has_ignore_index = false;
  bool nan_on_invalid = false;
  std::int64_t ignore_index = 0;

  SAMEBITS_HD bool is_selected(std::int64_t row) const {
    return selected == nullptr || ((selected[row >> 6] >> (row & 63)) & 1) != 0;
  }

  SAMEBITS_HD RowKind kind(std::int64_t row, std::int64_t id) const {
    if (!is_selected(row)) return keep_unselected ? RowKind::kKeep : RowKind::kZero;
    if (has_ignore_index && id == ignore_index) return RowKind::kZero;
    if (id >= 0 && id < vocab) return RowKind::kLive;
    return nan_on_invalid ? RowKind::kNan : RowKind::kZero;
  }
};

struct LogpProblem : RowRules {
  Device device = {};  // of every operand
  // The logits, or the gradient's shape: rows of `columns` of which the first `vocab` count.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType dtype = DType::kFloat32;     // of the logits
  bool binary64 = false;             // row64.v1 instead of row.v1
  RowArray<const void> logits = {};  // `data` may be null when rows is 0, and for linear_logp

  RowArray<const void> targets = {};
  RowArray<const void> row_temperature = {};
  double temperature = 1.0;

  // Outputs of forward; absent ones are not computed.
  RowArray<void> logp = {}, lse = {}, entropy = {};
  void* row_max = nullptr;          // [rows] float or double
  void* row_sum = nullptr;          // [rows] uint64, or [rows][2]
  void* row_entropy_sum = nullptr;  // the same

  // Backward and probability.
  const void* saved_max = nullptr;
  const void* saved_sum = nullptr;
  const void* saved_entropy_sum = nullptr;
  RowArray<const void> grad_logp = {}, grad_lse = {}, grad_entropy = {};
  RowArray<void> grad_logits = {};
  RowArray<void> probabilities = {};

  SAMEBITS_HD bool wants_entropy() const { return entropy.data != nullptr || row_entropy_sum != nullptr; }

  SAMEBITS_HD std::int64_t target(std::int64_t row) const {
    return targets.dtype == DType::kInt32 ? *targets.at<std::int32_t>(row) : *targets.at<std::int64_t>(row);
  }

  SAMEBITS_HD double tau(std::int64_t row) const {
    if (!row_temperature) return temperature;
    return row_temperature.dtype == DType::kFloat32 ? *row_temperature.at<float>(row)
                                                    : *row_temperature.at<double>(row);
  }
};

}  // namespace samebits::core
