// The scalar twin of one row: CONTRACT section 1, step by step. Real is float (row.v1) or double (row64.v1).
#pragma once

#include <cstdint>
#include <span>

#include "ref/numbers.h"

namespace samebits::ref {

// (M, S, U) of a row. A row whose M is not finite has S = U = 0.
template <class Real>
struct Statistics {
  Real M;
  typename Numbers<Real>::Sum S, U;
};

template <class Real>
struct Outputs {
  Real logp, lse, entropy;
};

// g, h, e of CONTRACT: upstream gradients of logp, lse and entropy.
template <class Real>
struct Upstream {
  Real g, h, e;
};

// Steps 1 to 5, from the scaled logits z of the true vocabulary.
template <class Real>
Statistics<Real> row_statistics(std::span<const Real> z);

// Steps 6 and 7.
template <class Real>
Outputs<Real> row_outputs(const Statistics<Real>& row, Real z_t);

// The gradient of one row: dx[i] = RN(dz_i * it), before it is rounded to the type of the logits.
template <class Real>
void row_gradient(const Statistics<Real>& row, std::span<const Real> z, std::int64_t target, Real it,
                  const Upstream<Real>& upstream, std::span<Real> dx);

// p of a scaled logit.
template <class Real>
Real probability(const Statistics<Real>& row, Real z);

}  // namespace samebits::ref
