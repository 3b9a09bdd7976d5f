// What lies in the gradients of a head until they are written: X in that of hidden, hidden states in that of weight.
#pragma once

#include <algorithm>

#include "core/linear_logp_gradient.h"
#include "cuda/launch/head_generic.h"
#include "cuda/launch/head_rows.h"

namespace samebits::cuda {

// Until grad_weight's rows from `column` on are written, the last of them may hold `rows` hidden states, or fewer where fewer are
// left: the first of those, in whole tiles of 128.
inline std::int64_t first_free_row(std::int64_t vocab, std::int64_t column, std::int64_t rows) {
  return std::max((vocab - gathered_room(rows)) / 128, (column + 127) / 128) * 128;
}

// Whether those from `last` on, which are written last, still leave a tile to them.
inline bool gradient_holds_hidden(const core::LinearLogpGradient& problem, std::int64_t last) {
  const core::LinearLogpProblem& head = problem.head;
  return problem.grad_weight != nullptr && !problem.accumulate &&
         problem.grad_weight_stride == head.hidden_size &&
         gathered_stride(head.hidden_size) == head.hidden_size &&
         reinterpret_cast<std::uintptr_t>(problem.grad_weight) % 256 == 0 &&
         first_free_row(head.logp.vocab, last, 1) + 128 <= head.logp.vocab;
}

// Whether rows of X fit into those of a gradient of hidden, which is written last.
inline bool gradient_holds_x(const core::RowArray<void>& gradient, const HeadShape& shape) {
  const core::RowIndex& index = gradient.index;
  return gradient && dtype_size(gradient.dtype) == dtype_size(stored_dtype(shape)) &&
         gathered_stride(shape.hidden_size) == shape.hidden_size &&
         (index.rank == 0 || (index.rank == 1 && index.strides[0] == shape.hidden_size)) &&
         reinterpret_cast<std::uintptr_t>(gradient.data) % 256 == 0;
}

}  // namespace samebits::cuda
