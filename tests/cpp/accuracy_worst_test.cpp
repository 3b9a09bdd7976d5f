// The worst rows a search can build: one large term and many just below half an ulp of it, and equal tails.
#include <gtest/gtest.h>

#include <algorithm>

#include "rng.h"
#include "row_errors.h"

namespace samebits::test {
namespace {

constexpr double kSumBound = 2e-6;      // logp and lse, beyond one ulp
constexpr double kEntropyBound = 8e-6;  // entropy

// A block with its largest logit, 0, in front and `copies` equal blocks. A term that is lost when it is added to a
// larger partial sum adds to the error, so each level of the combination has a depth of its own in either block: the
// lane of column 0, its partner lanes, its partner columns.
struct Recipe {
  static constexpr int kLevels = 7;  // the last one is column 0 of the copies
  double depth[2][kLevels];          // -log of a term's size relative to the largest
  std::int64_t copies;
  double shift;  // the whole row moved by a constant

  static int level(int column) {
    const int c = column % 8, q = column / 8 % 4;
    return c >= 4 ? 5 : c >= 2 ? 4 : c == 1 ? 3 : q >= 2 ? 2 : q;
  }

  // The two kinds of block, one after the other.
  template <class Real>
  std::vector<Real> kinds() const {
    std::vector<Real> z(256);
    for (int i = 0; i < 256; ++i)
      z[static_cast<std::size_t>(i)] = Real(shift - depth[i / 128][level(i % 128)]);
    z[0] = Real(shift);
    z[128] = Real(shift - depth[1][kLevels - 1]);
    if (copies == 0) z.resize(128);
    return z;
  }
};

template <class Real>
RowErrors recipe_errors(const Recipe& recipe) {
  const std::vector<Real> kinds = recipe.kinds<Real>();
  std::vector<std::int64_t> times(kinds.size(), 1);
  for (std::size_t i = 128; i < times.size(); ++i) times[i] = recipe.copies;
  const ref::OracleRow oracle({kinds.begin(), kinds.end()}, times);

  std::vector<Real> z(kinds.begin(), kinds.begin() + 128);
  for (std::int64_t i = 0; i < recipe.copies; ++i) z.insert(z.end(), kinds.begin() + 128, kinds.end());
  RowErrors errors = row_errors<Real>(z, 0, oracle);
  errors.keep_larger(row_errors<Real>(z, static_cast<std::int64_t>(kinds.size()) - 1, oracle));
  return errors;
}

template <class Real>
class AccuracyWorst : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AccuracyWorst, Reals);

// Hill climbing from many starts, once for each output.
TYPED_TEST(AccuracyWorst, rows_found_by_search_stay_within_the_bounds) {
  using Real = TypeParam;
  const double half_ulp = sizeof(Real) == 4 ? 24 * 0.6931471805599453 : 53 * 0.6931471805599453;
  Rng rng(21);
  RowErrors worst;
  int tried = 0;
  const auto errors_of = [&](const Recipe& recipe) {
    const RowErrors errors = recipe_errors<Real>(recipe);
    worst.keep_larger(errors);
    ++tried;
    return errors;
  };
  for (int start = 0; start < 30; ++start) {
    constexpr double RowErrors::* kAims[] = {&RowErrors::lse, &RowErrors::entropy, &RowErrors::logp};
    const auto aim = kAims[start % 3];
    Recipe best;
    best.copies = rng.pick<std::int64_t>({0, 0, 1, 7, 63, 127});
    best.shift = rng.chance(2) ? 0.0 : rng.normal() * 8;
    for (int level = 0; level < Recipe::kLevels; ++level) {
      best.depth[0][level] = half_ulp + rng.uniform() * 0.7 * static_cast<double>(rng.below(4));
      best.depth[1][level] = rng.pick({0.0, 1.0, 8.0}) + rng.uniform() * 8 + (rng.chance(3) ? half_ulp : 0);
    }
    if (rng.chance(2)) std::fill_n(best.depth[1], Recipe::kLevels, best.depth[1][0]);  // equal tails
    double score = errors_of(best).*aim;
    for (int move = 0; move < 120; ++move) {
      Recipe next = best;
      double& depth = next.depth[best.copies == 0 ? 0 : rng.below(2)][rng.below(Recipe::kLevels)];
      if (rng.chance(5))
        depth = rng.uniform() * 2 * half_ulp;
      else
        depth = std::max(0.0, depth + rng.normal() * rng.pick({1.0, 0.1, 0.01}));
      if (rng.chance(3))
        std::fill_n(next.depth[1], Recipe::kLevels, next.depth[1][rng.below(Recipe::kLevels)]);
      const double next_score = errors_of(next).*aim;
      if (next_score < score) continue;
      best = next;
      score = next_score;
    }
  }
  std::printf(
      "  %d rows searched, beyond 1 ulp: logp %.3g, lse %.3g (bound %.3g), entropy %.3g (bound %.3g)\n",
      tried, worst.logp, worst.lse, kSumBound * kPrecisionScale<Real>, worst.entropy,
      kEntropyBound * kPrecisionScale<Real>);
  EXPECT_LE(worst.logp, kSumBound * kPrecisionScale<Real>);
  EXPECT_LE(worst.lse, kSumBound * kPrecisionScale<Real>);
  EXPECT_LE(worst.entropy, kEntropyBound * kPrecisionScale<Real>);
  // The search found what it was built to find; random rows stay far below.
  EXPECT_GE(worst.lse, 3e-7 * kPrecisionScale<Real>);
}

// Tails of one size: the same rounding error over and over, at vocabularies where it could add up.
TYPED_TEST(AccuracyWorst, equal_tails_of_a_full_vocabulary_stay_within_the_bounds) {
  using Real = TypeParam;
  for (const std::int64_t vocab : {128, 4096, 131072}) {
    for (const double depth : {0.0, 0.3, 1.0, 8.0, 11.78, 16.64, 17.3, 25.0, 80.0}) {
      std::vector<Real> z(static_cast<std::size_t>(vocab), static_cast<Real>(-depth));
      z[0] = 0;
      // All columns but the first are equal: the oracle needs one exponential.
      const ref::Quad tail = ref::quad_exp(ref::Quad(z[1])), others = ref::Quad(vocab - 1);
      const ref::Quad sum = 1 + others * tail, L = ref::quad_log(sum);
      const ref::Quad entropy = L - others * tail * ref::Quad(z[1]) / sum;
      const auto outputs = ref::row_outputs<Real>(ref::row_statistics<Real>(z), z[0]);
      const double inner = sizeof(Real) == 8 ? ulp(double(L)) : 0;
      const double scale = kPrecisionScale<Real>;
      EXPECT_LE(std::abs(double(ref::Quad(outputs.lse) - L)), kSumBound * scale + ulp(outputs.lse) + inner);
      EXPECT_LE(std::abs(double(ref::Quad(outputs.logp) + L)), kSumBound * scale + ulp(outputs.logp) + inner);
      EXPECT_LE(std::abs(double(ref::Quad(outputs.entropy) - entropy)),
                kEntropyBound * scale + ulp(outputs.entropy) + inner)
          << "V = " << vocab << ", depth " << depth;
    }
  }
}

}  // namespace
}  // namespace samebits::test
