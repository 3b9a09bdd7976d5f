// Wide-precision oracles: what the mathematics says, for accuracy tests. Binary128.
#pragma once

#include <cstdint>
#include <vector>

namespace samebits::ref {

#if defined(__SIZEOF_FLOAT128__)
using Quad = __float128;
#else
using Quad = long double;  // binary128 on the other 64-bit machines we build for
static_assert(sizeof(long double) == 16);
#endif

Quad quad_exp(Quad x);
Quad quad_log(Quad x);

// A row of scaled logits, taken as exact; at least one is finite and none is NaN or +inf.
class OracleRow {
 public:
  template <class Real>
  explicit OracleRow(const std::vector<Real>& z) : OracleRow(std::vector<Quad>(z.begin(), z.end()), {}) {}
  // `times[i]` columns hold z[i]; an empty list means one each.
  OracleRow(std::vector<Quad> z, const std::vector<std::int64_t>& times);

  Quad max() const { return max_; }
  Quad log_sum() const { return log_sum_; }  // L: lse - M
  Quad lse() const { return max_ + log_sum_; }
  Quad logp(std::int64_t i) const { return (z_[i] - max_) - log_sum_; }
  Quad entropy() const { return log_sum_ + eta_; }
  Quad p(std::int64_t i) const { return quad_exp(logp(i)); }
  // The gradient with respect to z_i of g * logp_target + h * lse + e * entropy.
  Quad dz(std::int64_t i, std::int64_t target, Quad g, Quad h, Quad e) const;

 private:
  std::vector<Quad> z_;
  Quad max_, log_sum_, eta_;
};

}  // namespace samebits::ref
