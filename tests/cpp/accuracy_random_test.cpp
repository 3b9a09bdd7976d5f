// Random rows against the binary128 oracle. The twin stands for every backend: logp_bits_test holds them equal.
#include <gtest/gtest.h>

#include "rng.h"
#include "row_errors.h"

namespace samebits::test {
namespace {

constexpr double kBound = 2e-7;  // logp, lse and entropy, beyond one ulp

template <class Real>
std::vector<Real> random_row(Rng& rng, std::int64_t vocab) {
  std::vector<Real> z(static_cast<std::size_t>(vocab));
  const double scale = rng.pick({0.01, 1.0, 6.0, 16.0, 30.0, 0.0});
  for (Real& value : z) {
    const double drawn = scale == 0 ? 200 * rng.uniform() - 100 : scale * rng.normal();
    value = static_cast<Real>(std::clamp(drawn, -100.0, 100.0));
  }
  return z;
}

template <class Real>
class AccuracyRandom : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AccuracyRandom, Reals);

TYPED_TEST(AccuracyRandom, logp_lse_and_entropy_stay_within_the_bound) {
  using Real = TypeParam;
  Rng rng(11);
  RowErrors worst;
  const struct {
    std::int64_t vocab;
    int rows;
  } sizes[] = {{1, 20},     {2, 2000},   {33, 2000},  {128, 2000}, {129, 2000},
               {1000, 400}, {32001, 20}, {131072, 6}, {262144, 4}};
  int rows = 0;
  for (const auto& size : sizes) {
    for (int i = 0; i < size.rows; ++i, ++rows) {
      const std::vector<Real> z = random_row<Real>(rng, size.vocab);
      const ref::OracleRow oracle(z);
      const RowErrors errors = row_errors<Real>(z, rng.below(size.vocab), oracle);
      const double bound = kBound * kPrecisionScale<Real>;
      ASSERT_LE(errors.logp, bound) << "V = " << size.vocab << ", row " << i;
      ASSERT_LE(errors.lse, bound) << "V = " << size.vocab << ", row " << i;
      ASSERT_LE(errors.entropy, bound) << "V = " << size.vocab << ", row " << i;
      worst.keep_larger(errors);
    }
  }
  std::printf("  %d rows, beyond 1 ulp: logp %.3g, lse %.3g, entropy %.3g (bound %.3g)\n", rows, worst.logp,
              worst.lse, worst.entropy, kBound * kPrecisionScale<Real>);
}

// 2e-7 is no bound on every row. Where a handful of terms share the sum a row in a thousand is above it.
TEST(AccuracyTail, of_the_least_favourable_rows_is_short) {
  Rng rng(14);
  RowErrors worst;
  int logp_above = 0, entropy_above = 0;
  constexpr int kTailRows = 8000;
  for (int i = 0; i < kTailRows; ++i) {
    std::vector<float> z(128);
    for (float& value : z) value = static_cast<float>(6 * rng.normal());
    const RowErrors errors = row_errors<float>(z, rng.below(128), ref::OracleRow(z));
    worst.keep_larger(errors);
    logp_above += errors.logp > kBound;
    entropy_above += errors.entropy > kBound;
  }
  std::printf("  %d rows: above %.3g are %d logp and %d entropies; largest %.3g and %.3g\n", kTailRows,
              kBound, logp_above, entropy_above, worst.logp, worst.entropy);
  EXPECT_LE(logp_above, kTailRows / 1000);
  EXPECT_LE(entropy_above, kTailRows / 200);
  EXPECT_LE(worst.logp, 4e-7);
  EXPECT_LE(worst.entropy, 4e-7);
}

// p and dx of columns that are not the target: relative; the target's dx: absolute, for a unit upstream.
TYPED_TEST(AccuracyRandom, probabilities_and_gradients_stay_within_the_bounds) {
  using Real = TypeParam;
  constexpr double kScale = kPrecisionScale<Real>;
  const double normal = std::numeric_limits<Real>::min();  // below it p has fewer digits, and then none
  Rng rng(12);
  double worst_p = 0, worst_dx = 0, worst_target = 0;
  for (int i = 0; i < 900; ++i) {
    const std::int64_t vocab = i < 10 ? 50257 : rng.between(1, 600);
    const std::vector<Real> z = random_row<Real>(rng, vocab);
    const std::int64_t target = rng.below(vocab);
    const ref::OracleRow oracle(z);
    const auto statistics = ref::row_statistics<Real>(z);
    const bool of_lse = rng.chance(2);
    const Real g = of_lse ? Real(0) : Real(1), h = of_lse ? Real(1) : Real(0);
    std::vector<Real> dx(z.size());
    ref::row_gradient<Real>(statistics, z, target, Real(1), {g, h, Real(0)}, dx);
    const std::int64_t step = vocab > 1000 ? 97 : 1;
    for (std::int64_t k = target % step; k < vocab; k += step) {
      const auto at = static_cast<std::size_t>(k);
      const double distance = std::abs(double(z[at]) - double(statistics.M));
      const double relative = 1e-6 + 7.4e-8 * distance;
      const double p = double(oracle.p(k));
      const double exact_dx = double(oracle.dz(k, target, g, h, 0));
      const double p_error =
          std::abs(double(ref::Quad(ref::probability<Real>(statistics, z[at])) - oracle.p(k)));
      const double dx_error = std::abs(double(ref::Quad(dx[at]) - oracle.dz(k, target, g, h, 0)));
      ASSERT_LE(p_error, kScale * relative * p + normal) << "row " << i << ", column " << k;
      if (p > 4 * normal) worst_p = std::max(worst_p, p_error / p / relative);
      if (k == target) {
        ASSERT_LE(dx_error, kScale * 1e-6 + ulp(Real(exact_dx))) << "row " << i << ", target column " << k;
        worst_target = std::max(worst_target, dx_error);
      } else {
        ASSERT_LE(dx_error, kScale * relative * std::abs(exact_dx) + normal)
            << "row " << i << ", column " << k;
        if (p > 4 * normal) worst_dx = std::max(worst_dx, dx_error / std::abs(exact_dx) / relative);
      }
    }
  }
  std::printf(
      "  largest share of the relative bound: p %.3f, dx %.3f; target's dx %.3g absolute (bound %.3g)\n",
      worst_p / kScale, worst_dx / kScale, worst_target, 1e-6 * kScale);
}

// The gradient of all three outputs together against the oracle's formula, relative to the size of its terms.
TYPED_TEST(AccuracyRandom, gradients_of_all_three_outputs_follow_the_formula) {
  using Real = TypeParam;
  constexpr double kScale = kPrecisionScale<Real>;
  Rng rng(13);
  for (int i = 0; i < 600; ++i) {
    const std::int64_t vocab = rng.between(1, 400);
    const std::vector<Real> z = random_row<Real>(rng, vocab);
    const std::int64_t target = rng.below(vocab);
    const ref::OracleRow oracle(z);
    const auto statistics = ref::row_statistics<Real>(z);
    const Real g = Real(rng.normal()), h = Real(rng.normal()), e = Real(rng.normal());
    std::vector<Real> dx(z.size());
    ref::row_gradient<Real>(statistics, z, target, Real(1), {g, h, e}, dx);
    const double eta = double(oracle.entropy() - oracle.log_sum());
    for (std::int64_t k = 0; k < vocab; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const double distance = std::abs(double(z[at]) - double(statistics.M));
      // k_i is a difference of terms of this size; each of them is good to a few roundings, eta to 8e-6.
      const double terms = std::abs(g) + std::abs(h) + std::abs(e) * (distance + eta + 8);
      const double bound =
          (1e-6 + 7.4e-8 * distance) * terms * double(oracle.p(k)) + (k == target ? 1e-6 * std::abs(g) : 0.0);
      const double error = std::abs(double(ref::Quad(dx[at]) - oracle.dz(k, target, g, h, e)));
      ASSERT_LE(error, kScale * bound + ulp(dx[at]) + std::numeric_limits<Real>::min() * terms)
          << "row " << i << ", column " << k;
    }
  }
}

}  // namespace
}  // namespace samebits::test
