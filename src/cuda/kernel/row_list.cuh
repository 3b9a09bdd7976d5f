// The row list's bitmap, and the search for bad ids.
#pragma once

#include "core/logp_problem.h"

namespace samebits::cuda {

// Sets the bit of every row that is listed.
template <class Index>
__global__ void select_rows(const Index* list, std::int64_t count, std::int64_t stride, std::int64_t rows,
                            unsigned long long* words) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = list[i * stride];
  if (row >= 0 && row < rows) atomicOr(&words[row >> 6], 1ull << (row & 63));
}

// The first row whose id is neither valid nor ignored, into `first`, which starts as the largest value.
__global__ void find_invalid(const __grid_constant__ core::LogpProblem problem, unsigned long long* first) {
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (row >= problem.rows || !problem.is_selected(row)) return;
  const std::int64_t id = problem.target(row);
  if (problem.has_ignore_index && id == problem.ignore_index) return;
  if (id < 0 || id >= problem.vocab) atomicMin(first, static_cast<unsigned long long>(row));
}

}  // namespace samebits::cuda
