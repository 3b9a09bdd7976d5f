// A row_sum call after its arguments were checked: what a backend gets to see.
#pragma once

#include <cstdint>

#include "core/row_index.h"

namespace samebits::core {

struct RowSumProblem {
  Device device = {};  // of both operands
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::kFloat32;  // float32 or float64, of values and sums
  RowArray<const void> values = {};
  RowArray<void> sums = {};
};

}  // namespace samebits::core
