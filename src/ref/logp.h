// The scalar twin of a whole logp call: same effect as a backend's entry, one row after the other.
#pragma once

#include <vector>

#include "core/logp_problem.h"
#include "ref/row.h"

namespace samebits::ref {

// Writes every output of the problem that is present.
void logp_forward(const core::LogpProblem& problem);

// Writes the gradient, padding columns included.
void logp_backward(const core::LogpProblem& problem);

// it = RN(1 / tau), tau first rounded to fp32 under row.v1.
template <class Real>
Real inverse_temperature(double tau);

// z = RN(x * it) of one row of logits.
template <class Real>
std::vector<Real> scaled_logits(const core::LogpProblem& problem, std::int64_t row);

// (M, S, U) of a row as the forward pass saved them; U is 0 where it was not.
template <class Real>
Statistics<Real> saved_statistics(const core::LogpProblem& problem, std::int64_t row);

}  // namespace samebits::ref
