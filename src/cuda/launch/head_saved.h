// P that the forward pass of a head keeps for backward: written by block_stats where the engine does that, else by fill_p
// when the statistics of its rows are known.
#pragma once

#include "cuda/launch/head_rows.h"
#include "order/p_form.h"

namespace samebits::cuda {

// Rows of a chunk that fill_p writes, by their number in this list.
struct LateRows {
  HeadRows list;
  order::PRow* form = nullptr;
  std::int32_t* to = nullptr;  // row of the chunk; null: that of the same number
};

class HeadSaving {
 public:
  // Of chunks of at most `chunk` positions.
  HeadSaving(const core::LinearLogpProblem& head, const HeadEngine& engine, std::int64_t positions,
             std::int64_t chunk, Pieces& pieces);

  // Once the rows are listed; `logit` is room for a number per position.
  void prepare(const core::LinearLogpProblem& head, const HeadRows& list, float* logit,
               const core::DeviceCall& call) const;
  // What block_stats has to know.
  void add_to(StatsTask& task, const core::LinearLogpProblem& head) const;
  // Once a chunk's rows are finished; `hidden`, which holds theirs, may be overwritten.
  void finish(const core::LinearLogpProblem& head, HeadEngine& engine, const HeadRows& list,
              const PositionRange& range, void* hidden, const core::DeviceCall& call) const;

 private:
  // Rows of a range, from its first on, that are kept.
  std::int64_t kept(const PositionRange& range) const {
    return std::clamp<std::int64_t>(rows_ - range.first, 0, range.rows);
  }

  std::int64_t rows_;           // positions that are kept
  bool in_stats_;               // block_stats writes them
  float* reference_ = nullptr;  // [positions]: z of the targets
  LateRows late_ = {};
};

}  // namespace samebits::cuda
