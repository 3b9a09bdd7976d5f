// row_sum calls: the twin's answer, and the public API's from a tensor laid out in any way.
#pragma once

#include <samebits/samebits.h>

#include "bits.h"
#include "strided.h"

namespace samebits::test {

// Sums of `rows` rows that lie one after the other.
Values row_sum_twin(const Values& values, std::int64_t rows);

// How the tensors of a call lie in memory.
struct RowSumLayout {
  std::vector<std::int64_t> leading = {};  // empty: [rows]
  Placement values = {}, sums = {};
  bool with_workspace = false;
};

// The same through the public API. Fails the running test when a gap or an input was written.
Values row_sum_call(const Values& values, std::int64_t rows, const RowSumLayout& layout = {},
                    const ExecContext& context = {});
Values row_sum_call(const Values& values, std::int64_t rows, const RowSumLayout& layout,
                    const ExecContext& context, Residence& residence);

}  // namespace samebits::test
