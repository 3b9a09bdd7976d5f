// The list of a head's rows that take part, made on the device, and their hidden states gathered.
#pragma once

#include <algorithm>

#include "cuda/launch/head_engine.h"
#include "cuda/launch/pieces.h"

namespace samebits::cuda {

// Rows of the call that one CTA looks at.
inline constexpr int kRowsOfList = 1024;

// Rows of a call that can take part.
inline std::int64_t most_positions(const core::LogpProblem& problem, const core::DeviceCall& call) {
  return call.rows ? std::min(problem.rows, call.rows.shape[0]) : problem.rows;
}

// Positions of saved P that are used, of `rows` that there is room for: all positions, or whole tiles of 128 rows.
inline std::int64_t saved_positions(std::int64_t rows, std::int64_t positions) {
  return rows >= positions ? positions : rows / 128 * 128;
}

// Arrays by position, `capacity` long: as many as rows can take part.
struct HeadRows {
  std::int64_t capacity = 0;
  std::int32_t* count = nullptr;  // how many take part
  std::int32_t* row = nullptr;    // number of the row in the call
  std::int64_t* target = nullptr;
  void* inverse_tau = nullptr;       // float or double; null without a temperature
  std::int32_t* position = nullptr;  // [rows] of each row of the call, or -1; null when nobody asks
  std::int32_t* counts = nullptr;    // [CTAs] of the list

  HeadRows() = default;
  HeadRows(const core::LogpProblem& problem, std::int64_t most, bool positions, Pieces& pieces);
};

// Throws Error when the call has more rows than positions can count.
void check_row_count(const core::LogpProblem& problem);

// Fills the list and writes the outputs of rows that take no part.
void list_head_rows(const core::LogpProblem& problem, const HeadRows& rows, const core::DeviceCall& call);

// Elements between gathered rows.
inline std::int64_t gathered_stride(std::int64_t size) { return (size + 7) / 8 * 8; }

// Rows of the range into `out`; +0 in rows that do not take part, up to a multiple of 64 of them. `beside`: while the kernel
// ahead, and one that it runs beside, still run: neither touches `out`, and whoever reads it has ended.
void gather_hidden(const core::LinearLogpProblem& head, const HeadRows& rows, const PositionRange& range,
                   void* out, const core::DeviceCall& call, bool beside = false);

}  // namespace samebits::cuda
