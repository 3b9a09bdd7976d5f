// The split of a head's gradient that keeps the promise about memory.
#pragma once

#include <span>

#include "cuda/launch/head_buffers.h"

namespace samebits::cuda {

inline bool take_less(std::int64_t number, std::span<const std::int64_t> falling, std::int64_t& room) {
  for (const std::int64_t less : falling)
    if (number > less) {
      room = less;
      return true;
    }
  return false;
}

// The next narrower room than that of a split, where there is one: what costs the least time goes first.
inline bool narrow(HeadRoom& room, const HeadSplit& split) {
  // With Nemotron's width full waves of 132 multiprocessors: 3584 columns of weight are three.
  constexpr std::int64_t kWeightColumns[] = {3584, 1792, 1024};
  constexpr std::int64_t kPieces[] = {4096, 2816, 2048, 1408};  // halves to sixths of a segment, whole blocks
  constexpr std::int64_t kPiecesApart[] = {2048, 1408, 1024, 768, 512};
  constexpr std::int64_t kGathered[] = {6144, 3072, 1536, 768};
  if (split.one_range && split.total > 0 && !split.finishes_all &&
      take_less(split.weight_columns, kWeightColumns, room.weight_columns))
    return true;
  if (split.weight_holds_hidden && !split.hidden_in_weight) {
    room.hidden = false;
    return true;
  }
  if (split.columns > split.segments.length) {
    room.columns = split.columns / 2;
    return true;
  }
  if (!split.hidden_in_weight && take_less(split.gathered, kGathered, room.gathered)) return true;
  if (!split.one_range && split.total > 0 && !split.finishes_all &&
      take_less(split.weight_columns, kPieces, room.weight_columns)) {
    room.gathered = HeadRoom::kAny;
    return true;
  }
  if (split.held_segments > 0) {
    room = {};
    room.sums = false;
    return true;
  }
  if (split.apart) return take_less(split.weight_columns, kPiecesApart, room.weight_columns);
  if (!split.can_be_apart) return false;
  room.both = false;
  return true;
}

// `beside`: bytes of the scratch that no split changes.
template <class Row>
HeadSplit fitting_split(const core::LinearLogpGradient& problem, const HeadShape& shape,
                        const HeadEngine& engine, std::int64_t positions, std::size_t beside,
                        std::int64_t promised) {
  const auto most = static_cast<std::size_t>(promised + 8 * positions * problem.head.hidden_size);
  HeadRoom room;
  for (;;) {
    const HeadSplit split(problem, shape, engine, positions, room);
    Pieces pieces(nullptr);
    const HeadBuffers<Row> measured(problem, split, shape, engine, pieces);
    if (Scratch::padded(pieces.bytes() + beside) <= most || !narrow(room, split)) return split;
  }
}

}  // namespace samebits::cuda
