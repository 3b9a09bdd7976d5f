#include "ref/oracle.h"

#include <cmath>

#if defined(__SIZEOF_FLOAT128__)
#include <quadmath.h>
#endif

namespace samebits::ref {

#if defined(__SIZEOF_FLOAT128__)
Quad quad_exp(Quad x) { return expq(x); }
Quad quad_log(Quad x) { return logq(x); }
#else
Quad quad_exp(Quad x) { return std::exp(x); }
Quad quad_log(Quad x) { return std::log(x); }
#endif

OracleRow::OracleRow(std::vector<Quad> z, const std::vector<std::int64_t>& times)
    : z_(std::move(z)), max_(z_.front()) {
  for (const Quad value : z_)
    if (value > max_) max_ = value;
  // Below -180 a term is less than 2^-259 of the largest: beyond binary128 for any vocabulary.
  Quad sum = 0, weighted = 0;
  for (std::size_t i = 0; i < z_.size(); ++i) {
    const Quad d = z_[i] - max_;
    if (!(d > -180)) continue;
    const Quad term = quad_exp(d) * Quad(times.empty() ? 1 : times[i]);
    sum += term;
    weighted -= term * d;
  }
  log_sum_ = quad_log(sum);
  eta_ = weighted / sum;
}

Quad OracleRow::dz(std::int64_t i, std::int64_t target, Quad g, Quad h, Quad e) const {
  const Quad p_i = p(i);
  if (p_i == 0) return i == target ? g : Quad(0);
  const Quad direct = i == target ? g : Quad(0);
  return direct + p_i * ((h - g) - e * ((z_[i] - max_) + eta_));
}

}  // namespace samebits::ref
