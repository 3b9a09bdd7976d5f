// The forward pass over rows of logits, wherever they come from: what logp and linear_logp share.
#pragma once

#include <vector>

#include "core/logp_problem.h"
#include "ref/logp.h"
#include "ref/row.h"

namespace samebits::ref {

template <class Real>
void store(const core::RowArray<void>& output, std::int64_t row, Real value) {
  if (output) *output.template at<Real>(row) = value;
}

template <class Real>
void store_sum(void* sums, std::int64_t row, typename Numbers<Real>::Sum sum) {
  if (sums == nullptr) return;
  auto* words = static_cast<std::uint64_t*>(sums);
  if constexpr (sizeof(Real) == 4) {
    words[row] = sum;
  } else {
    words[2 * row] = static_cast<std::uint64_t>(sum);
    words[2 * row + 1] = static_cast<std::uint64_t>(sum >> 64);
  }
}

// `logits_of(row)` gives the row's true vocabulary before the temperature; called for participating rows only.
template <class Real, class LogitsOf>
void forward_rows(const core::LogpProblem& problem, LogitsOf logits_of) {
  constexpr Real inf = std::numeric_limits<Real>::infinity();
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::int64_t id = problem.target(row);
    const core::RowKind kind = problem.kind(row, id);
    if (kind == core::RowKind::kKeep) continue;

    // An id outside the vocabulary, an ignored id and a row not selected: logp 0, lse -inf, entropy 0, or NaN.
    Statistics<Real> statistics{-inf, 0, 0};
    Outputs<Real> outputs{0, -inf, 0};
    if (kind == core::RowKind::kNan)
      outputs = {Numbers<Real>::nan(), Numbers<Real>::nan(), Numbers<Real>::nan()};
    if (kind == core::RowKind::kLive) {
      std::vector<Real> z = logits_of(row);
      const Real it = inverse_temperature<Real>(problem.tau(row));
      for (Real& value : z) value = value * it;
      statistics = row_statistics<Real>(z);
      outputs = row_outputs<Real>(statistics, z[id]);
    }
    store(problem.logp, row, outputs.logp);
    store(problem.lse, row, outputs.lse);
    store(problem.entropy, row, outputs.entropy);
    if (problem.row_max != nullptr) static_cast<Real*>(problem.row_max)[row] = statistics.M;
    store_sum<Real>(problem.row_sum, row, statistics.S);
    store_sum<Real>(problem.row_entropy_sum, row, statistics.U);
  }
}

}  // namespace samebits::ref
