#include "ref/row_ops.h"

#include <vector>

#include "ref/logp.h"
#include "ref/row.h"

namespace samebits::ref {
namespace {

template <class Real>
void probability_rows(const core::LogpProblem& problem) {
  constexpr Real inf = std::numeric_limits<Real>::infinity();
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    // Rows with an invalid id or unselected, rows of -inf alone, and columns beyond the vocabulary have +0.
    Real* p = problem.probabilities.at<Real>(row);
    for (std::int64_t i = 0; i < problem.columns; ++i) p[i] = 0;
    if (problem.kind(row, problem.target(row)) != core::RowKind::kLive) continue;
    const Statistics<Real> saved = saved_statistics<Real>(problem, row);
    if (saved.M == -inf) continue;

    const std::vector<Real> z = scaled_logits<Real>(problem, row);
    const bool is_nan = std::isnan(saved.M) || saved.M == inf;
    for (std::int64_t i = 0; i < problem.vocab; ++i)
      p[i] = is_nan ? Numbers<Real>::nan() : probability(saved, z[i]);
  }
}

template <class Real>
void row_sum_rows(const core::RowSumProblem& problem) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    // A row without columns may have no memory.
    const Real* v = problem.columns > 0 ? problem.values.at<Real>(row) : nullptr;
    *problem.sums.at<Real>(row) = row_sum<Real>({v, static_cast<std::size_t>(problem.columns)});
  }
}

}  // namespace

template <class Real>
Real row_sum(std::span<const Real> v) {
  const std::size_t n = v.size();
  std::vector<Real> level;  // block sums, then the sums of pairs, and of pairs of pairs
  for (std::size_t first = 0; first < n; first += 128) {
    // Lane (c, q) takes the columns 8j + c with j mod 4 = q, j ascending, from +0; a missing column is +0.
    Real lane[8][4] = {};
    for (std::size_t j = 0; j < 16; ++j)
      for (std::size_t c = 0; c < 8; ++c) {
        const std::size_t i = first + 8 * j + c;
        lane[c][j % 4] = lane[c][j % 4] + (i < n ? v[i] : Real(0));
      }
    Real a[8];
    for (int c = 0; c < 8; ++c) a[c] = (lane[c][0] + lane[c][1]) + (lane[c][2] + lane[c][3]);
    level.push_back(((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7])));
  }
  // A balanced binary tree over the block index, pairs 2i and 2i + 1; a missing block is +0.
  while (level.size() > 1) {
    std::vector<Real> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(level[i] + (i + 1 < level.size() ? level[i + 1] : Real(0)));
    level = next;
  }
  const Real sum = level.empty() ? Real(0) : level[0];
  return std::isnan(sum) ? Numbers<Real>::nan() : sum;
}
template float row_sum<float>(std::span<const float>);
template double row_sum<double>(std::span<const double>);

void probability(const core::LogpProblem& problem) {
  problem.binary64 ? probability_rows<double>(problem) : probability_rows<float>(problem);
}

void row_sum(const core::RowSumProblem& problem) {
  problem.dtype == DType::kFloat64 ? row_sum_rows<double>(problem) : row_sum_rows<float>(problem);
}

}  // namespace samebits::ref
