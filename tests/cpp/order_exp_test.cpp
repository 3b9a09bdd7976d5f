// e(d), exp64 and log64 against wider arithmetic. SAMEBITS_EXHAUSTIVE=1 takes every fp32 argument of e(d), a
// hundred times as many binary64 ones. The bounds are derived and explained in docs/exp.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "order/exp32.h"
#include "order/math64.h"
#include "order/row.h"

namespace samebits::order {
namespace {

#if !defined(__clang__)  // where fma is no constant expression
static_assert(exp_core(0.0f) == 1.0f && exp_core(-0.0f) == 1.0f,
              "the largest term of a row must count as exactly one");
static_assert(exp_core(Exp32::kCut) >= 0x1p-126f, "usable in constant expressions");
static_assert(exp64(0.0) == 1.0 && exp64(-0.0) == 1.0);
static_assert(bits_to<std::uint64_t>(log64(1.0)) == 0, "+0, not -0: a row of one column has lse = M");
static_assert(exp_or_zero<RowV1>(-100.0f) == 0.0f && exp_in_sum<RowV1>(-100.0f) > 0.0f);
#endif

constexpr std::uint32_t kSmallestNormal32 = 0x00800000u;
constexpr std::uint32_t kLargestFinite32 = 0x7f7fffffu;

bool exhaustive() { return std::getenv("SAMEBITS_EXHAUSTIVE") != nullptr; }

// What a sweep over many arguments has seen.
struct Sweep {
  double worst_over_bound = 0;  // error / allowed error
  double worst_error = 0;
  double worst_at = 0;
  std::uint64_t smallest = ~std::uint64_t{0};  // bits of the results
  std::uint64_t largest = 0;
  std::uint64_t count = 0;

  void add(double at, double error, double allowed, std::uint64_t result_bits) {
    const double share = error / allowed;
    if (!(share <= worst_over_bound)) {  // a NaN error must be seen, too
      worst_over_bound = share;
      worst_at = at;
    }
    worst_error = std::max(worst_error, error);
    smallest = std::min(smallest, result_bits);
    largest = std::max(largest, result_bits);
    ++count;
  }
  void add(const Sweep& other) {
    if (!(other.worst_over_bound <= worst_over_bound)) {
      worst_over_bound = other.worst_over_bound;
      worst_at = other.worst_at;
    }
    worst_error = std::max(worst_error, other.worst_error);
    smallest = std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
    count += other.count;
  }
};

// Calls `part(index, parts)` on every core and adds up what the parts saw.
template <class Part>
Sweep in_parallel(const Part& part) {
  const unsigned parts = std::max(1u, std::thread::hardware_concurrency());
  std::vector<Sweep> seen(parts);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < parts; ++i) threads.emplace_back([&, i] { seen[i] = part(i, parts); });
  for (std::thread& thread : threads) thread.join();
  Sweep all;
  for (const Sweep& one : seen) all.add(one);
  return all;
}

void print(const char* what, const Sweep& sweep) {
  std::printf("%s: %llu values, worst %.4f of the bound at %a, largest error %.5g, results %llx..%llx\n",
              what, static_cast<unsigned long long>(sweep.count), sweep.worst_over_bound, sweep.worst_at,
              sweep.worst_error, static_cast<unsigned long long>(sweep.smallest),
              static_cast<unsigned long long>(sweep.largest));
}

// Every fp32 (or every 1009th) whose bits run from `first` to `last`: from 0 to `last`, of one sign.
// The oracle is the C library's binary64 exp: its error, below 2^-52, is a billionth of the bound.
Sweep sweep_e(std::uint32_t first, std::uint32_t last) {
  const std::uint64_t stride = exhaustive() ? 1 : 1009;
  const std::uint64_t steps = (last - first) / stride + 1;
  return in_parallel([&](unsigned part, unsigned parts) {
    Sweep seen;
    for (std::uint64_t i = steps * part / parts; i < steps * (part + 1) / parts; ++i) {
      const float d = bits_to<float>(static_cast<std::uint32_t>(last - i * stride));
      const float e = exp_core(d);
      const double error = std::abs(static_cast<double>(e) / std::exp(static_cast<double>(d)) - 1.0);
      seen.add(d, error, 1.6e-7 + 1.4e-8 * std::abs(static_cast<double>(d)), bits_to<std::uint32_t>(e));
    }
    return seen;
  });
}

TEST(OrderExp, e_is_within_its_bound_and_normal_for_every_d_from_the_cut_to_zero) {
  const Sweep seen = sweep_e(0x80000000u, bits_to<std::uint32_t>(Exp32::kCut));
  print("e(d), kCut <= d <= -0", seen);
  EXPECT_LE(seen.worst_over_bound, 1.0) << "at d = " << seen.worst_at;
  EXPECT_GE(seen.smallest, kSmallestNormal32);
  EXPECT_LE(seen.largest, bits_to<std::uint32_t>(1.0f)) << "a term may not exceed the maximum's";
}

TEST(OrderExp, e_is_within_its_bound_and_normal_for_every_d_from_zero_to_88) {
  const Sweep seen = sweep_e(0, bits_to<std::uint32_t>(88.0f));
  print("e(d), +0 <= d <= 88", seen);
  EXPECT_LE(seen.worst_over_bound, 1.0) << "at d = " << seen.worst_at;
  EXPECT_GE(seen.smallest, bits_to<std::uint32_t>(1.0f));
  EXPECT_LE(seen.largest, kLargestFinite32);
}

TEST(OrderExp, mean_error_of_e_does_not_build_up_in_sums) {
  // Midpoints of [-20, 0]. The word of log2 e adds 1.34e-8 |d|; what the polynomial adds has the other sign.
  const int count = 1 << 18;
  double sum = 0;
  double sum_weighted = 0;
  double weights = 0;
  for (int i = 0; i < count; ++i) {
    const float d = -20.0f * (static_cast<float>(i) + 0.5f) / static_cast<float>(count);
    const double exact = std::exp(static_cast<double>(d));
    const double error = static_cast<double>(exp_core(d)) / exact - 1.0;
    sum += error;
    sum_weighted += error * exact;
    weights += exact;
  }
  std::printf("mean error of e(d) on [-20, 0]: %.4g; weighted with exp(d): %.4g\n", sum / count,
              sum_weighted / weights);
  EXPECT_LE(std::abs(sum / count), 1.2e-7);
  EXPECT_LE(std::abs(sum_weighted / weights), 1e-8);
}

TEST(OrderExp, the_cut_is_the_last_float_with_a_normal_result) {
  const float below = std::nextafter(Exp32::kCut, -100.0f);
  EXPECT_GE(bits_to<std::uint32_t>(exp_core(Exp32::kCut)), kSmallestNormal32);
  EXPECT_LT(bits_to<std::uint32_t>(exp_core(below)), kSmallestNormal32);
  EXPECT_EQ(bits_to<std::uint32_t>(exp_or_zero<RowV1>(below)), 0u);
  EXPECT_EQ(exp_in_sum<RowV1>(below), exp_core(Exp32::kCut));
}

TEST(OrderExp, infinity_is_zero_outside_sums_and_the_cut_inside_and_nan_stays) {
  EXPECT_EQ(bits_to<std::uint32_t>(exp_or_zero<RowV1>(-kInf32)), 0u);
  EXPECT_EQ(exp_in_sum<RowV1>(-kInf32), exp_core(Exp32::kCut));
  EXPECT_EQ(bits_to<std::uint64_t>(exp_or_zero<Row64V1>(-infinity<double>())), 0u);
  EXPECT_EQ(exp_in_sum<Row64V1>(-infinity<double>()), exp64(Exp64::kCut));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(bits_to<std::uint32_t>(exp_in_sum<RowV1>(nan)), kNanBits32);
  EXPECT_EQ(bits_to<std::uint32_t>(exp_or_zero<RowV1>(nan)), kNanBits32);
  EXPECT_EQ(bits_to<std::uint64_t>(exp64(std::numeric_limits<double>::quiet_NaN())), kNanBits64);
}

// Uniform in [0, 1), from an integer generator (splitmix64), so that every machine sees the same arguments.
class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double operator()() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double operator()(double low, double high) { return low + (high - low) * (*this)(); }
  int below(int count) { return static_cast<int>(bits() % static_cast<std::uint64_t>(count)); }

 private:
  std::uint64_t state_;
};

// The wide oracle: long double has 64 bits or more of significand, and its functions err by at most 2 ulp.
static_assert(std::numeric_limits<long double>::digits >= 64);
constexpr double kOracleUlp = 2 * 0x1p-11;

double ulp_error(double got, long double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, exponent - 53));
}

template <class Argument, class Function, class Oracle>
Sweep sweep_binary64(double bound, Argument argument, Function function, Oracle oracle) {
  const std::uint64_t count = exhaustive() ? 20'000'000 : 200'000;
  return in_parallel([&](unsigned part, unsigned parts) {
    Uniform random(part);
    Sweep seen;
    for (std::uint64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      const double x = argument(random);
      const double got = function(x);
      seen.add(x, ulp_error(got, oracle(static_cast<long double>(x))), bound + kOracleUlp,
               bits_to<std::uint64_t>(got));
    }
    return seen;
  });
}

double exp64_argument(Uniform& random) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  double d = 0;
  switch (random.below(6)) {
    case 0: d = random(Exp64::kCut, 709.0); break;
    case 1: d = random(-20.0, 0.0); break;
    case 2: d = (random.below(2045) - 1021.5) * kLn2 * (1.0 + random(-1e-6, 1e-6)); break;  // |r| largest
    case 3: d = (random.below(2045) - 1022) * kLn2 + random(-0.01, 0.01); break;            // r near 0
    case 4: d = std::ldexp(random(-1.0, 1.0), -random.below(60)); break;                    // d near 0
    default: d = random.below(2) ? random(Exp64::kCut, -708.38) : random(708.99, 709.0);
  }
  return std::clamp(d, Exp64::kCut, 709.0);
}

TEST(OrderExp, exp64_is_within_four_fifths_of_an_ulp_and_normal) {
  const Sweep seen = sweep_binary64(
      0.8, exp64_argument, [](double d) { return exp64(d); }, [](long double d) { return std::exp(d); });
  print("exp64(d), kCut <= d <= 709", seen);
  EXPECT_LE(seen.worst_over_bound, 1.0) << "at d = " << seen.worst_at;
  EXPECT_GE(seen.smallest, 0x0010000000000000ull) << "the result must stay normal";
  EXPECT_LT(seen.largest, 0x7ff0000000000000ull);
  EXPECT_GE(exp64(Exp64::kCut), 0x1p-1022);
}

double log64_argument(Uniform& random) {
  double x = 0;
  switch (random.below(6)) {
    case 0: x = random(1.0, 0x1p33); break;
    case 1: x = std::ldexp(random(1.0, 2.0), random.below(33)); break;
    case 2: x = 1.0 + std::ldexp(random(-0.5, 0.5), -random.below(50)); break;  // near 1
    case 3:                                                                     // where the exponent changes
      x = std::ldexp(1.4142135623730951 + std::ldexp(random(-0.5, 0.5), -random.below(40)),
                     random.below(40) - 4);
      break;
    case 4:
      x = std::ldexp(1.0 + std::ldexp(random(-0.5, 0.5), -random.below(50)), random.below(36) - 2);
      break;
    default: x = std::ldexp(random(1.0, 2.0), random.below(2046) - 1022);
  }
  return x == 1.0 ? 2.0 : x;  // log(1) = 0 has no ulp; it is asserted above
}

TEST(OrderExp, log64_is_within_seven_tenths_of_an_ulp) {
  const Sweep seen = sweep_binary64(
      0.7, log64_argument, [](double x) { return log64(x); }, [](long double x) { return std::log(x); });
  print("log64(x), x > 0 and normal", seen);
  EXPECT_LE(seen.worst_over_bound, 1.0) << "at x = " << seen.worst_at;
}

TEST(OrderExp, log64_of_one_is_plus_zero_and_of_the_values_beside_it_exact_to_the_ulp) {
  EXPECT_EQ(bits_to<std::uint64_t>(log64(1.0)), 0u);
  const double above = 1.0 + 0x1p-52;
  const double below = 1.0 - 0x1p-53;
  EXPECT_EQ(log64(above), 0x1p-52 - 0x1p-105);
  EXPECT_EQ(log64(below), -0x1p-53 - 0x1p-107);
}

}  // namespace
}  // namespace samebits::order
