// How the elements of an embedding are dealt to CTAs, and when they may be moved 16 bytes at a time.
#pragma once

#include "core/row_index.h"
#include "cuda/kernel/embedding_items.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {

// `body(first_cta, ctas)` over all items.
template <class Body>
void over_items(ItemSplit split, Body body) {
  if (split.pieces == 0) return;
  const std::int64_t ctas = (split.rows * split.pieces + kEmbeddingItems - 1) / kEmbeddingItems;
  in_ranges(ctas, kMaxItems, [&](std::int64_t first, std::int64_t count) {
    split.first_cta = first;
    body(split, count);
  });
}

inline bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

// True when every row of `array` begins a multiple of 16 bytes from its data.
template <class Void>
bool aligned_rows(const core::RowArray<Void>& array) {
  bool whole = aligned(array.data);
  for (int i = 0; i < array.index.rank; ++i)
    whole = whole && array.index.strides[static_cast<std::size_t>(i)] * dtype_size(array.dtype) % 16 == 0;
  return whole;
}

}  // namespace samebits::cuda
