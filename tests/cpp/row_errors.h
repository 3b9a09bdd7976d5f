// Errors of a row's outputs against the binary128 oracle, and the bounds they are held to.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ref/oracle.h"
#include "ref/row.h"

namespace samebits::test {

// Spacing of the numbers around x.
template <class Real>
double ulp(Real x) {
  const Real magnitude = std::abs(x);
  return double(std::nextafter(magnitude, std::numeric_limits<Real>::infinity())) - double(magnitude);
}

// |error| beyond the ulps that the output format itself costs; compared with the bound of its kind.
struct RowErrors {
  double logp = 0, lse = 0, entropy = 0;

  void keep_larger(const RowErrors& other) {
    logp = std::max(logp, other.logp);
    lse = std::max(lse, other.lse);
    entropy = std::max(entropy, other.entropy);
  }
};

// One ulp of the result is free; under row64.v1 also one ulp of max(|z_t - M|, L), where binary64 intermediate
// values are rounded.
template <class Real>
RowErrors row_errors(const std::vector<Real>& z, std::int64_t target, const ref::OracleRow& oracle) {
  const auto statistics = ref::row_statistics<Real>(z);
  const auto outputs = ref::row_outputs<Real>(statistics, z[static_cast<std::size_t>(target)]);
  double inner = 0;
  if constexpr (sizeof(Real) == 8) {
    const double distance = std::abs(double(z[static_cast<std::size_t>(target)]) - double(statistics.M));
    inner = ulp(std::max(distance, double(oracle.log_sum())));
  }
  const auto beyond = [inner](Real value, ref::Quad exact) {
    const double error = std::abs(double(ref::Quad(value) - exact));
    return std::max(0.0, error - ulp(value) - inner);
  };
  return {beyond(outputs.logp, oracle.logp(target)), beyond(outputs.lse, oracle.lse()),
          beyond(outputs.entropy, oracle.entropy())};
}

// row64.v1 is held to the bounds of row.v1 times this.
template <class Real>
constexpr double kPrecisionScale = sizeof(Real) == 8 ? 0x1p-29 : 1.0;

}  // namespace samebits::test
