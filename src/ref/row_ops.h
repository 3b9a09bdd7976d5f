// The scalar twins of probability and row_sum: same effect as a backend's entry.
#pragma once

#include <span>

#include "core/logp_problem.h"
#include "core/row_sum_problem.h"

namespace samebits::ref {

// p of every column, padding columns included.
void probability(const core::LogpProblem& problem);

// One sum per row.
void row_sum(const core::RowSumProblem& problem);

// The sum of one row. Real is float or double.
template <class Real>
Real row_sum(std::span<const Real> v);

}  // namespace samebits::ref
