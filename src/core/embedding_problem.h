// An embedding call after its arguments were checked: what a backend gets to see.
#pragma once

#include <cstdint>

#include "core/matmul_problem.h"

namespace samebits::core {

struct EmbeddingProblem {
  Device device = {};             // of every operand
  std::int64_t rows = 0;          // ids
  std::int64_t vocab = 0;         // V
  std::int64_t columns = 0;       // H
  DType dtype = DType::kFloat32;  // of weight and out, or of grad and the gradient of weight
  RowArray<const void> ids = {};

  // Lookup.
  Operand weight = {};          // (v, k)
  RowArray<void> out = {};      // rows dense along k
  bool nan_on_invalid = false;  // else +0

  // Gradient.
  bool has_padding = false;
  std::int64_t padding = 0;  // takes no part
  RowArray<const void> grad = {};
  std::int64_t grad_stride = 1;  // between neighbouring columns
  void* grad_weight = nullptr;   // (v, k), dense along k
  std::int64_t grad_weight_stride = 0;
  bool accumulate =
      false;  // add to grad_weight, which is float32 (float64 for float64), instead of writing it

  SAMEBITS_HD std::int64_t id(std::int64_t row) const {
    return ids.dtype == DType::kInt32 ? *ids.at<std::int32_t>(row) : *ids.at<std::int64_t>(row);
  }
  SAMEBITS_HD bool valid(std::int64_t id) const { return id >= 0 && id < vocab; }
  // Whether a row takes part in the gradient.
  SAMEBITS_HD bool counts(std::int64_t id) const { return valid(id) && !(has_padding && id == padding); }
};

// Throws unless `padding_idx` is a row of a table of `vocab` rows.
void check_padding_idx(std::int64_t padding_idx, std::int64_t vocab);

// OnInvalid::kRaise: the id of `row` is not valid.
[[noreturn]] void raise_invalid_id(const EmbeddingProblem& problem, std::int64_t row, std::int64_t id);

}  // namespace samebits::core
