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

// How a kernel that finishes rows lists the late ones of a chunk; `rows` of its first are kept, none without `reference`.
struct LateListing {
  const float* reference = nullptr;
  std::int64_t rows = 0;
  LateRows late = {};
  core::RowArray<const void> hidden = {};
  std::int64_t hidden_stride = 1, size = 0;
  std::uint16_t* gathered = nullptr;  // hidden of late rows, by number
  std::int64_t gathered_stride = 0;
};

class HeadSaving {
 public:
  // Of chunks of at most `chunk` positions.
  HeadSaving(const core::LinearLogpProblem& head, const HeadEngine& engine, std::int64_t positions,
             std::int64_t chunk, Pieces& pieces);

  // Once the rows are listed; `logit` is room for a number per position. Whether there is a kernel.
  bool prepare(const core::LinearLogpProblem& head, const HeadRows& list, float* logit,
               const core::DeviceCall& call) const;
  // What block_stats has to know.
  void add_to(StatsTask& task, const core::LinearLogpProblem& head) const;
  // Of a chunk whose rows are finished by a kernel that can; `hidden`, which holds theirs, may be overwritten.
  LateListing listing(const core::LinearLogpProblem& head, const PositionRange& range, void* hidden) const;
  // The same once they are finished, by kernels of its own.
  void list(const core::LinearLogpProblem& head, const HeadRows& list, const PositionRange& range,
            void* hidden, const core::DeviceCall& call) const;
  // Then P of those rows.
  void fill(const core::LinearLogpProblem& head, HeadEngine& engine, const PositionRange& range,
            const void* hidden, const core::DeviceCall& call) const;

 private:
  // Rows of a range, from its first on, that are kept.
  std::int64_t kept(const PositionRange& range) const {
    return std::clamp<std::int64_t>(rows_ - range.first, 0, range.rows);
  }
  LateRows late_of(const PositionRange& range) const;

  std::int64_t rows_;  // positions that are kept
  std::int64_t chunk_, chunks_;
  bool in_stats_;               // block_stats writes them
  float* reference_ = nullptr;  // [positions]: z of the targets
  LateRows late_ = {};
  std::int32_t* late_count_ = nullptr;  // [chunks]
};

}  // namespace samebits::cuda
