// The last bits of e(d)'s five coefficients: a hill climb with the arithmetic that will be used. docs/exp.md.
//
//   g++ -std=c++20 -O3 -mavx2 -mfma -ffp-contract=off -fno-trapping-math \
//       tools/exp_last_bits.cpp -o /tmp/exp_last_bits
//   /tmp/exp_last_bits [seed [starts]]
//
// Minimises the largest relative error of the fp32 Horner polynomial of 2^r, final rounding included, over a
// sample of r in [-1/2, 1/2]. Every result must then pass the exhaustive test over d: a sample of r is not a proof.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

using Coefficients = std::array<float, 5>;  // of r, r^2, ... r^5; the constant term is 1

// Where the climb starts: coefficients rounded by hand, worse than those of Sollya.
constexpr Coefficients kStart = {0x1.62e42ap-1f, 0x1.ebf9bcp-3f, 0x1.c6b752p-5f, 0x1.3cea88p-7f,
                                 0x1.5bba16p-10f};
constexpr std::array<int, 5> kStartUlps = {6, 20, 200, 2000, 4000};  // how far from it a start may lie
constexpr std::array<int, 5> kStepUlps = {2, 8, 60, 500, 1500};
constexpr std::size_t kSample = std::size_t{1} << 18;
constexpr std::size_t kQuickSample = std::size_t{1} << 14;  // while climbing
constexpr int kPatience = 1500;                             // steps without progress that end a climb

struct Sample {
  std::vector<float> r;
  std::vector<double> inverse;  // 2^-r

  Sample() {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
    for (std::size_t i = 0; i < kSample; ++i) {
      float x = uniform(random);
      if (i < 64) x = (i & 1 ? -0.5f : 0.5f) * (1 - static_cast<double>(i / 2) * 6e-8f);  // the ends
      r.push_back(x);
      inverse.push_back(1 / std::exp2(static_cast<double>(x)));
    }
  }
};

double largest_error(const Sample& sample, const Coefficients& c, std::size_t count) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float r = sample.r[i];
    float p = __builtin_fmaf(c[4], r, c[3]);
    p = __builtin_fmaf(p, r, c[2]);
    p = __builtin_fmaf(p, r, c[1]);
    p = __builtin_fmaf(p, r, c[0]);
    p = __builtin_fmaf(p, r, 1.0f);
    const double error = std::fabs(static_cast<double>(p) * sample.inverse[i] - 1);
    largest = error > largest ? error : largest;
  }
  return largest;
}

float move(float value, int ulps) {
  std::int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits += ulps;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

int between(std::mt19937_64& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(2 * limit + 1)) - limit;
}

}  // namespace

int main(int argc, char** argv) {
  const int seed = argc > 1 ? std::atoi(argv[1]) : 5;
  const int starts = argc > 2 ? std::atoi(argv[2]) : 400;
  const Sample sample;
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  Coefficients best = kStart;
  double best_error = largest_error(sample, best, kSample);
  std::printf("start: %.5g\n", best_error);
  for (int start = 0; start < starts; ++start) {
    const bool afresh = random() % 3 == 0;
    Coefficients here = afresh ? kStart : best;
    if (afresh)
      for (std::size_t i = 0; i < here.size(); ++i) here[i] = move(here[i], between(random, kStartUlps[i]));
    double error = largest_error(sample, here, kQuickSample);
    for (int failures = 0; failures < kPatience;) {
      Coefficients there = here;
      const int moves = 1 + static_cast<int>(random() % 3);
      for (int j = 0; j < moves; ++j) {
        const std::size_t i = random() % there.size();
        const int scale = 1 << (random() % 4);
        const int limit = kStepUlps[i] / scale > 1 ? kStepUlps[i] / scale : 1;
        there[i] = move(there[i], between(random, limit));
      }
      const double tried = largest_error(sample, there, kQuickSample);
      if (tried < error) {
        error = tried;
        here = there;
        failures = 0;
      } else {
        ++failures;
      }
    }
    error = largest_error(sample, here, kSample);
    if (error < best_error) {
      best_error = error;
      best = here;
      std::printf("%d: %.5g with %a %a %a %a %a\n", start, error, best[0], best[1], best[2], best[3],
                  best[4]);
      std::fflush(stdout);
    }
  }
}
