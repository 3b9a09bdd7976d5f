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

// Item `step` of this thread; its row may lie beyond the last one. The wide division is one for all threads.
__device__ __forceinline__ Item item_of(const ItemSplit& split, int step) {
  const std::int64_t base = (split.first_cta + blockIdx.x) * kEmbeddingItems;
  Item item;
  item.row = base / split.pieces;
  item.piece = base - item.row * split.pieces + step * kEmbeddingThreads + static_cast<int>(threadIdx.x);
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
