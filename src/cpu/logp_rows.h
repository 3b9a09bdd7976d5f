// How the outcome of a row is written, the same for logp and linear_logp.
#pragma once

#include "core/logp_problem.h"
#include "order/row.h"

namespace samebits::cpu {

// Bytes a Fixed takes in the saved sums.
template <class Row>
void store_sum(void* sums, std::int64_t row, typename Row::Fixed sum) {
  if (sums == nullptr) return;
  auto* words = static_cast<std::uint64_t*>(sums);
  if constexpr (sizeof(sum) == 8) {
    words[row] = sum;
  } else {
    words[2 * row] = static_cast<std::uint64_t>(sum);
    words[2 * row + 1] = static_cast<std::uint64_t>(sum >> 64);
  }
}

template <class Row>
typename Row::Fixed load_sum(const void* sums, std::int64_t row) {
  if (sums == nullptr) return 0;
  const auto* words = static_cast<const std::uint64_t*>(sums);
  if constexpr (sizeof(typename Row::Fixed) == 8)
    return words[row];
  else
    return (static_cast<typename Row::Fixed>(words[2 * row + 1]) << 64) | words[2 * row];
}

template <class Row>
void write_row(const core::LogpProblem& problem, std::int64_t row, const order::RowStats<Row>& stats,
               const order::RowResult<Row>& result) {
  using Real = typename Row::Real;
  if (problem.logp) *problem.logp.at<Real>(row) = result.logp;
  if (problem.lse) *problem.lse.at<Real>(row) = result.lse;
  if (problem.entropy) *problem.entropy.at<Real>(row) = result.entropy;
  if (problem.row_max != nullptr) static_cast<Real*>(problem.row_max)[row] = stats.max;
  store_sum<Row>(problem.row_sum, row, stats.sum);
  store_sum<Row>(problem.row_entropy_sum, row, stats.entropy_sum);
}

// A row that takes part: its statistics are known, z_target is the scaled logit of its id.
template <class Row>
void write_live_row(const core::LogpProblem& problem, std::int64_t row, const order::RowStats<Row>& stats,
                    typename Row::Real z_target) {
  write_row<Row>(problem, row, stats, order::finish_row<Row>(stats, z_target));
}

// A row that does not take part. True when it was one.
template <class Row>
bool write_other_row(const core::LogpProblem& problem, std::int64_t row, core::RowKind kind) {
  using Real = typename Row::Real;
  if (kind == core::RowKind::kLive) return false;
  if (kind == core::RowKind::kKeep) return true;
  const Real nan = order::canonical_nan<Real>();
  const Real inf = order::infinity<Real>();
  const bool zero = kind == core::RowKind::kZero;
  write_row<Row>(problem, row, {-inf, 0, 0},
                 zero ? order::RowResult<Row>{Real(0), -inf, Real(0)} : order::RowResult<Row>{nan, nan, nan});
  return true;
}

}  // namespace samebits::cpu
