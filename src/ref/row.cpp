#include "ref/row.h"

#include <algorithm>

namespace samebits::ref {
namespace {

template <class Real>
constexpr Real kInf = std::numeric_limits<Real>::infinity();

// Step 2: NaN if either is NaN.
template <class Real>
Real max_of(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return Numbers<Real>::nan();
  return a > b ? a : b;
}

}  // namespace

template <class Real>
Statistics<Real> row_statistics(std::span<const Real> z) {
  using N = Numbers<Real>;
  const std::int64_t V = static_cast<std::int64_t>(z.size());

  // 1. Blocks of 128 consecutive columns; a missing column counts as -inf.
  const std::int64_t blocks = (V + 127) / 128;
  const auto column = [&](std::int64_t i) { return i < V ? z[i] : -kInf<Real>; };

  // 2. m_b and M.
  const auto block_max = [&](std::int64_t b) {
    Real m = -kInf<Real>;
    for (std::int64_t i = 128 * b; i < 128 * b + 128; ++i) m = max_of(m, column(i));
    return m;
  };
  Real M = -kInf<Real>;
  for (std::int64_t b = 0; b < blocks; ++b) M = max_of(M, block_max(b));
  if (M == 0) M = 0;  // -0 is stored as +0
  if (std::isnan(M) || std::isinf(M)) return {M, 0, 0};

  typename N::Sum S = 0, U = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Real m_b = block_max(b);

    // 4. Lane (c, q) takes the columns 8j + c with j mod 4 = q, j ascending.
    Real s_b = 0, u_b = 0;
    if (m_b != -kInf<Real>) {
      Real s[8][4] = {}, u[8][4] = {};
      for (int j = 0; j < 16; ++j) {
        for (int c = 0; c < 8; ++c) {
          const Real d = std::max(column(128 * b + 8 * j + c) - m_b, N::cut);
          const Real term = N::e(d);
          s[c][j % 4] = s[c][j % 4] + term;
          u[c][j % 4] = std::fma(term, -d, u[c][j % 4]);
        }
      }
      const auto combine = [](const Real(&lane)[8][4]) {
        Real a[8];
        for (int c = 0; c < 8; ++c) a[c] = (lane[c][0] + lane[c][1]) + (lane[c][2] + lane[c][3]);
        return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
      };
      s_b = combine(s);
      u_b = combine(u);
    }

    // 5. Fixed point.
    const Real w_b = e0<Real>(m_b - M);
    S += N::to_sum(s_b * w_b);
    if (w_b > 0) U += N::to_sum(std::fma(s_b, M - m_b, u_b) * w_b);
  }
  return {M, S, U};
}

template <class Real>
Outputs<Real> row_outputs(const Statistics<Real>& row, Real z_t) {
  using N = Numbers<Real>;
  // 7. Rows that are not finite.
  if (std::isnan(row.M) || row.M == kInf<Real>) return {N::nan(), N::nan(), N::nan()};
  if (row.M == -kInf<Real>) return {N::nan(), -kInf<Real>, N::nan()};

  // 6. Binary64 inside, one rounding at the end.
  const double M = row.M;
  const double L = order::log64(N::rn64(row.S) * N::unit);
  const double lse = M + L;
  const double logp = (double(z_t) - M) - L;
  const double entropy = L + N::rn64(row.U) / N::rn64(row.S);
  return {Real(logp), Real(lse), Real(entropy)};
}

template <class Real>
Real probability(const Statistics<Real>& row, Real z) {
  using N = Numbers<Real>;
  const Real q = Real(1) / Real(N::rn64(row.S) * N::unit);
  return e0<Real>(z - row.M) * q;
}

template <class Real>
void row_gradient(const Statistics<Real>& row, std::span<const Real> z, std::int64_t target, Real it,
                  const Upstream<Real>& upstream, std::span<Real> dx) {
  using N = Numbers<Real>;
  const Real M = row.M;
  const auto [g, h, e] = upstream;
  // 7. Rows that are not finite.
  if (std::isnan(M) || std::isinf(M)) {
    for (Real& value : dx) value = M == -kInf<Real> ? Real(0) : N::nan();
    return;
  }

  const double total = N::rn64(row.S) * N::unit;
  const double eta = N::rn64(row.U) / N::rn64(row.S);
  const Real q = Real(1) / Real(total);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const Real p_i = e0<Real>(z[i] - M) * q;
    if (static_cast<std::int64_t>(i) == target) {
      const Real c = Real(1.0 - double(e0<Real>(z[i] - M)) / total);
      const Real k = e == 0 ? h : std::fma(-e, z[i] - M, Real(double(h) - double(e) * eta));
      const Real dz = p_i == 0 ? g * c : std::fma(k, p_i, g * c);
      dx[i] = dz * it;
    } else if (p_i == 0) {
      dx[i] = 0;  // exactly +0, whatever the upstream
    } else {
      const Real k = e == 0 ? h - g : std::fma(-e, z[i] - M, Real((double(h) - double(g)) - double(e) * eta));
      const Real dz = k * p_i;
      dx[i] = dz * it;
    }
  }
}

#define SAMEBITS_REF_ROW(Real)                                                                         \
  template Statistics<Real> row_statistics<Real>(std::span<const Real>);                               \
  template Outputs<Real> row_outputs<Real>(const Statistics<Real>&, Real);                             \
  template Real probability<Real>(const Statistics<Real>&, Real);                                      \
  template void row_gradient<Real>(const Statistics<Real>&, std::span<const Real>, std::int64_t, Real, \
                                   const Upstream<Real>&, std::span<Real>);
SAMEBITS_REF_ROW(float)
SAMEBITS_REF_ROW(double)
#undef SAMEBITS_REF_ROW

}  // namespace samebits::ref
