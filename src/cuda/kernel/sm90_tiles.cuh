// Which part of a product the kernels for SM90 compute, cut into tiles, and who takes which when.
#pragma once

#include <algorithm>

#include "cuda/launch/head_engine.h"
#include "order/row.h"

namespace samebits::cuda {

inline constexpr int kTileDepth = 64, kHalfRows = 64;  // rows of one instruction
inline constexpr int kProductThreads = 384;
inline constexpr int kConsumers = 2;

// The thread's number, anew each time: what is worked out of it ahead of a product would wait behind it in memory.
__device__ __forceinline__ int thread_number() {
  int number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
}

// `transposed`: M or N, not K, is the operand's dense axis.
template <class ElementType, bool a_transposed, bool b_transposed, int cluster_size, int columns = 192,
          int halves = 2>
struct Sm90Tile {
  using Element = ElementType;
  static constexpr int kColumns = columns, kHalves = halves, kRows = kHalfRows * halves;
  static constexpr bool kTransposedA = a_transposed, kTransposedB = b_transposed;
  static constexpr int kCluster = cluster_size;
  static constexpr int kBytesA = kRows * kTileDepth * 2, kBytesB = kColumns * kTileDepth * 2;
  static constexpr int kStageBytes = kBytesA + kBytesB;
  // Rows of a box of B: a CTA brings its share of the rows, or whole chunks of 64 columns.
  static constexpr int kBoxRowsB = b_transposed ? kTileDepth : kColumns / cluster_size;
  static constexpr int kBoxRowsA = a_transposed ? kTileDepth : kRows;
  static_assert(!a_transposed || halves == 2);
};

inline constexpr int kMostParts = 32;

// Which part of a product there is. The live number of rows (of K where `bounds_depth`) is at most *count - first.
struct ProductShape {
  int rows = 0, columns = 0, depth = 0;  // M, N, K
  std::int64_t first = 0;
  const std::int32_t* count = nullptr;  // null: all of them
  bool bounds_depth = false;
  // Nothing here depends on the kernel ahead, which waited itself for all that came before: it is waited for at the end.
  bool beside_kernel_ahead = false;
  // Counts stages of all clusters, 0 at the start, where one may be so many counts ahead of the others' mean; null: as it may.
  std::uint32_t* progress = nullptr;
  int ahead = 1;
  int group = 8;  // row tiles of a cluster that are walked through before the next column tile
  // Parts of K, each a chain of its own; their sums go to the epilogue one by one. All but the last have whole steps of 16.
  int parts = 0;  // 0: all of K is one
  Segment part[kMostParts] = {};
  // Parts of a tile that one warpgroup works off, one after the other. Where K is bounded, all of them.
  int together = 1;
};

struct LiveShape {
  int rows, depth;

  __device__ Segment part(const ProductShape& shape, int number) const {
    if (shape.parts == 0) return {0, depth};
    const Segment part = shape.part[number];
    return {part.first, min(part.columns, depth - part.first)};
  }
};
__device__ __forceinline__ LiveShape live_shape(const ProductShape& shape) {
  LiveShape live{shape.rows, shape.depth};
  if (shape.count != nullptr) {
    const std::int64_t left = max(static_cast<std::int64_t>(*shape.count) - shape.first, std::int64_t{0});
    // Not by a reference to one of them: it would take both into memory.
    if (shape.bounds_depth)
      live.depth = static_cast<int>(min(static_cast<std::int64_t>(live.depth), left));
    else
      live.rows = static_cast<int>(min(static_cast<std::int64_t>(live.rows), left));
  }
  return live;
}

struct TileAt {
  int row, column;
  int part;
  bool second = false;  // of a pair
  int step = 0;         // among the parts that are worked off together
  bool last = true;     // of these
};

// Division by a number known early: the quotient in fp32 is off by one at most (below 2^22).
struct Division {
  int divisor;
  float inverse;
  __device__ explicit Division(int d) : divisor(d), inverse(1.0f / static_cast<float>(d)) {}
  __device__ int quotient(int number) const {
    const int near = static_cast<int>(static_cast<float>(number) * inverse), rest = number - near * divisor;
    return near + (rest >= divisor) - (rest < 0);
  }
};

// The cluster's tiles, or pairs of neighbours along the columns: groups of row tiles, in each of them column after column.
class TileWalk {
 public:
  __device__ TileWalk(const ProductShape& shape, const LiveShape& live, int tile_rows, int tile_columns,
                      int cluster, int rank)
      : tile_rows_(tile_rows),
        cluster_rows_(tile_rows * cluster),
        row_tiles_((live.rows + cluster_rows_ - 1) / cluster_rows_),
        column_tiles_((shape.columns + tile_columns - 1) / tile_columns),
        tile_columns_(tile_columns),
        group_(shape.group),
        rank_(rank),
        parts_((max(shape.parts, 1) + shape.together - 1) / shape.together),
        per_part_(row_tiles_ * column_tiles_),
        per_group_(group_ * column_tiles_),
        height_(group_),
        last_height_(row_tiles_ % group_) {}

  __device__ int count() const { return per_part_.divisor * parts_; }

  __device__ TileAt at(int item) const {
    const int part = parts_ == 1 ? 0 : per_part_.quotient(item);
    item -= part * per_part_.divisor;
    const int group = per_group_.quotient(item), rest = item - group * per_group_.divisor;
    const Division height = (group + 1) * group_ <= row_tiles_ ? height_ : last_height_;
    const int column = height.quotient(rest), row = group * group_ + rest - column * height.divisor;
    return {row * cluster_rows_ + rank_ * tile_rows_, column * tile_columns_, part};
  }

 private:
  int tile_rows_, cluster_rows_, row_tiles_, column_tiles_, tile_columns_, group_, rank_, parts_;
  Division per_part_, per_group_, height_, last_height_;
};

// What a CTA does in a turn; even turns are of the first warpgroup, odd ones of the second. A pair of tiles takes two turns
// of the same warpgroup, and parts of a tile that are worked off together take one each.
struct Turn {
  bool end = false;  // there are no more
  bool any = false;  // there is a tile
  TileAt tile = {};
  Segment part = {};  // of K
};

// What a kernel finds out once, in shared memory: loads from elsewhere wait behind the stores of an epilogue, and divisions
// take longer than the product of a tile with little depth.
struct Walk {
  LiveShape live;
  TileWalk tiles;
  Division turns;  // of two tiles, one of each warpgroup

  template <class Tile, bool pairs>
  __device__ static Walk of(const ProductShape& shape, int rank) {
    const LiveShape live = live_shape(shape);
    int steps = pairs ? 2 : shape.together;
    if (steps > 1 && shape.bounds_depth)
      steps = max((live.depth + shape.part[0].columns - 1) / shape.part[0].columns, 1);
    return {
        live,
        TileWalk(shape, live, Tile::kRows, pairs ? 2 * Tile::kColumns : Tile::kColumns, Tile::kCluster, rank),
        Division(2 * steps)};
  }
};

// Worked out anew each time, so that no register holds anything of it while there are products.
template <class Tile, bool pairs>
__device__ __forceinline__ Turn find_turn(int number, const ProductShape& shape, const Walk& of) {
  constexpr int cluster = Tile::kCluster;
  asm volatile("" ::: "memory");
  const TileWalk& walk = of.tiles;
  const int first = static_cast<int>(blockIdx.x) / cluster, stride = static_cast<int>(gridDim.x) / cluster;
  const int two = of.turns.quotient(number), turn_of_two = number - two * of.turns.divisor;
  const int items = walk.count(), item = first + stride * (2 * two + turn_of_two % 2);
  Turn turn;
  turn.end = first + stride * 2 * two >= items;
  if (item >= items) return turn;
  turn.tile = walk.at(item);
  if (!pairs) {
    turn.tile.step = turn_of_two / 2;
    turn.tile.part = turn.tile.part * shape.together + turn.tile.step;
    turn.tile.last = turn_of_two + 2 >= of.turns.divisor;
  }
  turn.part = of.live.part(shape, turn.tile.part);
  turn.any = true;
  if (pairs && turn_of_two >= 2) {
    turn.any = turn.tile.column + order::kBlock < shape.columns;  // else the first tile has all
    turn.tile.column += Tile::kColumns;
    turn.tile.second = true;
  }
  return turn;
}

}  // namespace samebits::cuda
