// Lookup of rows, and the search for bad ids.
#pragma once

#include "core/embedding_problem.h"
#include "cuda/kernel/embedding_items.cuh"

namespace samebits::cuda {

// `Word` is what is moved at once: 16 bytes where rows are dense and aligned, else an element. `invalid` is what rows of
// invalid ids are filled with, `step` the distance of neighbouring words in weight.
template <class Word>
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_forward_rows(const __grid_constant__ core::EmbeddingProblem problem, const ItemSplit split,
                           const Word invalid, std::int64_t step) {
  const std::int64_t element = dtype_size(problem.dtype);
  const Item first = first_item(split);
  Word words[kEmbeddingSteps];
#pragma unroll
  for (int s = 0; s < kEmbeddingSteps; ++s) {
    const Item item = item_of(split, first, s);
    words[s] = invalid;
    if (item.row >= split.rows) continue;
    const std::int64_t id = problem.id(item.row);
    if (!problem.valid(id)) continue;
    const char* row =
        static_cast<const char*>(problem.weight.data) + id * problem.weight.row_stride * element;
    words[s] = reinterpret_cast<const Word*>(row)[item.piece * step];
  }
#pragma unroll
  for (int s = 0; s < kEmbeddingSteps; ++s) {
    const Item item = item_of(split, first, s);
    if (item.row >= split.rows) continue;
    char* row = static_cast<char*>(problem.out.data) + problem.out.index.offset(item.row) * element;
    reinterpret_cast<Word*>(row)[item.piece] = words[s];
  }
}

// The first row whose id is not valid, into `first`, which starts as the largest value.
__global__ void find_invalid_id(const __grid_constant__ core::EmbeddingProblem problem,
                                unsigned long long* first) {
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (row < problem.rows && !problem.valid(problem.id(row)))
    atomicMin(first, static_cast<unsigned long long>(row));
}

}  // namespace samebits::cuda
