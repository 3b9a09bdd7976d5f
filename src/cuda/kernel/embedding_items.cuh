// How the elements of an embedding are dealt to threads.
#pragma once

#include <cstdint>

namespace samebits::cuda {

inline constexpr int kEmbeddingThreads = 256, kEmbeddingSteps = 4;
inline constexpr int kEmbeddingItems = kEmbeddingThreads * kEmbeddingSteps;  // of a CTA

// Items (row, piece of it), piece fastest, dealt to CTAs evenly.
struct ItemSplit {
  std::int64_t first_cta = 0;
  std::int64_t rows = 0;
  std::int64_t pieces = 0;  // of a row
};

struct Item {
  std::int64_t row, piece;
};

// Item 0 of this thread, without the carry into its row: the wide division is one for all threads and steps.
__device__ __forceinline__ Item first_item(const ItemSplit& split) {
  const std::int64_t base = (split.first_cta + blockIdx.x) * kEmbeddingItems;
  const std::int64_t row = base / split.pieces;
  return {row, base - row * split.pieces + threadIdx.x};
}

// Item `step` of this thread; its row may lie beyond the last one.
__device__ __forceinline__ Item item_of(const ItemSplit& split, const Item& first, int step) {
  Item item{first.row, first.piece + step * kEmbeddingThreads};
  if (split.pieces >= kEmbeddingItems) {
    if (item.piece >= split.pieces) item.piece -= split.pieces, ++item.row;
  } else {
    const auto piece = static_cast<std::uint32_t>(item.piece),
               pieces = static_cast<std::uint32_t>(split.pieces);
    item.row += piece / pieces;
    item.piece = piece % pieces;
  }
  return item;
}

}  // namespace samebits::cuda
