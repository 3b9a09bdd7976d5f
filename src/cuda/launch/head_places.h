// What lies in the gradients of a head until they are written: X in that of hidden, hidden states and P in that of weight.
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

// What the copy engine and the caches like best, in bytes.
inline constexpr std::int64_t kAligned = 256;

// Whether grad_weight is a matrix that others may lie in.
inline bool weight_is_dense(const core::LinearLogpGradient& problem) {
  const std::int64_t size = problem.head.hidden_size;
  return problem.grad_weight != nullptr && !problem.accumulate && problem.grad_weight_stride == size &&
         gathered_stride(size) == size &&
         reinterpret_cast<std::uintptr_t>(problem.grad_weight) % kAligned == 0;
}

// Whether rows from `last` on, which are written last, still leave a tile to hidden states.
inline bool gradient_holds_hidden(const core::LinearLogpGradient& problem, std::int64_t last) {
  const std::int64_t vocab = problem.head.logp.vocab;
  return weight_is_dense(problem) && first_free_row(vocab, last, 1) + 128 <= vocab;
}

// Whether rows of X fit into those of a gradient of hidden, which is written last.
inline bool gradient_holds_x(const core::RowArray<void>& gradient, const HeadShape& shape) {
  const core::RowIndex& index = gradient.index;
  return gradient && dtype_size(gradient.dtype) == dtype_size(stored_dtype(shape)) &&
         gathered_stride(shape.hidden_size) == shape.hidden_size &&
         (index.rank == 0 || (index.rank == 1 && index.strides[0] == shape.hidden_size)) &&
         reinterpret_cast<std::uintptr_t>(gradient.data) % kAligned == 0;
}

}  // namespace samebits::cuda
