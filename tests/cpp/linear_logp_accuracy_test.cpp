// Gradients of linear_logp against binary64. The measure is the rms error of the exact result rounded to bfloat16
// (or float32): what any gradient of that type has to have. Every case prints what it measures, for fp16 also in
// roundings to fp16, an eighth of those.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <tuple>

#include "head_case.h"
#include "run_case.h"

namespace samebits::test {
namespace {

struct Exact {
  std::vector<double> hidden, weight, bias;
};

// g (onehot - p), h p and e times the gradient of the entropy, in binary64 from the operands as they are.
Exact exact(const HeadCase& head) {
  const std::int64_t T = head.logp.rows, V = head.logp.vocab, H = head.size;
  std::vector<double> W(static_cast<std::size_t>(V * H));
  for (std::int64_t i = 0; i < V * H; ++i) W[i] = element_value(head.weight, i);
  Exact out{std::vector<double>(T * H), std::vector<double>(V * H), std::vector<double>(V)};
  std::vector<double> z(V), p(V), x(H);
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t k = 0; k < H; ++k) x[k] = element_value(head.hidden, t * H + k);
    double most = -INFINITY, sum = 0, mean = 0;
    for (std::int64_t v = 0; v < V; ++v) {
      z[v] = head.bias.count() > 0 ? element_value(head.bias, v) : 0.0;
      for (std::int64_t k = 0; k < H; ++k) z[v] += x[k] * W[v * H + k];
      most = std::max(most, z[v]);
    }
    for (std::int64_t v = 0; v < V; ++v) sum += p[v] = std::exp(z[v] - most);
    for (std::int64_t v = 0; v < V; ++v) mean += (p[v] /= sum) * (z[v] - most);
    const auto upstream = [&](const Values& values) {
      return values.count() ? element_value(values, t) : 0.0;
    };
    const double g = upstream(head.logp.grad_logp), h = upstream(head.logp.grad_lse),
                 e = upstream(head.logp.grad_entropy);
    for (std::int64_t v = 0; v < V; ++v) {
      const double dz =
          (h - g) * p[v] + (v == head.logp.targets[t] ? g : 0.0) - e * p[v] * (z[v] - most - mean);
      for (std::int64_t k = 0; k < H; ++k) {
        out.hidden[t * H + k] += dz * W[v * H + k];
        out.weight[v * H + k] += dz * x[k];
      }
      out.bias[v] += dz;
    }
  }
  return out;
}

double rms(std::size_t count, const std::function<double(std::size_t)>& error) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += error(i) * error(i);
  return std::sqrt(sum / static_cast<double>(count));
}

// The rms error, in units of that of rounding the exact values to `dtype`.
double in_roundings(const Values& values, const std::vector<double>& wanted, DType dtype) {
  Values rounded(dtype, static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    set_element(rounded, static_cast<std::int64_t>(i), wanted[i]);
  const auto at = [](const Values& v, std::size_t i) {
    return element_value(v, static_cast<std::int64_t>(i));
  };
  return rms(wanted.size(), [&](std::size_t i) { return at(values, i) - wanted[i]; }) /
         rms(wanted.size(), [&](std::size_t i) { return at(rounded, i) - wanted[i]; });
}

// Logits of standard deviation `spread`.
HeadCase spread_case(std::uint64_t seed, std::int64_t rows, std::int64_t vocab, std::int64_t size,
                     DType dtype, double spread) {
  Rng rng(seed);
  HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
  for (std::int64_t i = 0; i < rows * size; ++i)
    set_element(head.hidden, i,
                element_value(head.hidden, i) * spread / std::sqrt(static_cast<double>(size)));
  return head;
}

enum class Softmax { kFlat, kPeaked, kMixed, kOneSign };
constexpr Softmax kSoftmaxes[] = {Softmax::kFlat, Softmax::kPeaked, Softmax::kMixed, Softmax::kOneSign};
constexpr DType kHalves[] = {DType::kBFloat16, DType::kFloat16};

// Logits of standard deviation 0.8 or 16; or of the one in odd rows and of the other in even ones; or flat, and all
// products of both gradients of one sign, so that a chain that truncates drifts as far as it can.
HeadCase shaped_case(std::uint64_t seed, std::int64_t rows, std::int64_t vocab, std::int64_t size,
                     DType dtype, Softmax softmax) {
  HeadCase head = spread_case(seed, rows, vocab, size, dtype, softmax == Softmax::kPeaked ? 16.0 : 0.8);
  if (softmax == Softmax::kOneSign) {
    for (Values* values : {&head.hidden, &head.weight, &head.logp.grad_logp})
      for (std::int64_t i = 0; i < values->count(); ++i)
        set_element(*values, i, std::abs(element_value(*values, i)));
  }
  for (std::int64_t t = 0; softmax == Softmax::kMixed && t < rows; t += 2)
    for (std::int64_t k = 0; k < size; ++k)
      set_element(head.hidden, t * size + k, element_value(head.hidden, t * size + k) * 16);
  return head;
}

// In roundings.
struct Errors {
  double hidden, weight;
};

// The contract's bounds, in roundings to bfloat16.
constexpr Errors kHalf{1.35, 1.8};

// Returns the errors in roundings to the type of the operands.
Errors expect_within(const HeadCase& head, const std::string& what, const Errors& bounds = kHalf) {
  const Exact wanted = exact(head);
  const HeadGradients actual = head_gradients(head, available_backends().front(), 2);
  const auto errors = [&](DType measure) {
    return Errors{in_roundings(actual.hidden, wanted.hidden, measure),
                  in_roundings(actual.weight, wanted.weight, measure)};
  };
  const DType dtype = head.hidden.dtype;
  const Errors found = errors(dtype == DType::kFloat32 ? dtype : DType::kBFloat16), own = errors(dtype);
  std::printf(
      "  T %lld, V %lld, H %lld, %s, %s: grad_hidden %.2f, grad_weight %.2f (of its own type %.2f, %.2f)\n",
      static_cast<long long>(head.logp.rows), static_cast<long long>(head.logp.vocab),
      static_cast<long long>(head.size), std::string(dtype_name(dtype)).c_str(), what.c_str(), found.hidden,
      found.weight, own.hidden, own.weight);
  EXPECT_LE(found.hidden, bounds.hidden);
  EXPECT_LE(found.weight, bounds.weight);
  return own;
}

const char* name_of(Softmax softmax) {
  switch (softmax) {
    case Softmax::kFlat: return "flat";
    case Softmax::kPeaked: return "peaked";
    case Softmax::kMixed: return "flat and peaked rows";
    default: return "flat, of one sign";
  }
}

TEST(LinearLogpAccuracy, gradients_of_16_bit_operands_err_as_one_or_two_roundings) {
  for (const DType dtype : kHalves)
    for (const double spread : {0.8, 6.0, 16.0})
      expect_within(spread_case(1, 128, 2048, 64, dtype, spread), "spread " + std::to_string(spread));
}

TEST(LinearLogpAccuracy, flat_and_peaked_rows_mix) {
  for (const DType dtype : kHalves)
    expect_within(shaped_case(2, 128, 2048, 64, dtype, Softmax::kMixed), name_of(Softmax::kMixed));
}

TEST(LinearLogpAccuracy, entropy_upstreams_err_as_much) {
  for (const double spread : {0.8, 6.0}) {
    HeadCase head = spread_case(3, 128, 2048, 64, DType::kBFloat16, spread);
    Rng rng(3);
    head.logp.grad_entropy = normal_elements(rng, DType::kFloat32, 128);
    head.logp.grad_lse = normal_elements(rng, DType::kFloat32, 128);
    expect_within(head, "all upstreams");
  }
}

// A probability errs relatively by what its logit errs absolutely: logits of up to 64 in fp32, by 2^-19 and a little
// more from their chain, which is some 40 roundings of the probability.
TEST(LinearLogpAccuracy, gradients_of_float_operands) {
  for (const double spread : {0.8, 6.0, 16.0})
    expect_within(spread_case(4, 128, 2048, 64, DType::kFloat32, spread), "fma", {60, 60});
}

// In roundings to the type of the operands. The rms of so few elements is itself uncertain by a tenth; a single chain
// over 65600 rows of one sign errs by 5 roundings to fp16.
constexpr double kSameError = 1.25;

// Truncating tensor-core chains are cut into segments: more rows do not add up to more error.
class LinearLogpTokens : public ::testing::TestWithParam<std::tuple<DType, Softmax>> {};

TEST_P(LinearLogpTokens, a24_errors_do_not_grow_with_tokens) {
  const auto [dtype, softmax] = GetParam();
  const auto errors = [&, dtype = dtype, softmax = softmax](std::int64_t rows) {
    return expect_within(shaped_case(5, rows, 48, 8, dtype, softmax), name_of(softmax));
  };
  const Errors few = errors(4096);
  for (const std::int64_t rows : {32768, 32769, 32864, 65536, 65600}) {
    const Errors many = errors(rows);
    EXPECT_LE(many.hidden, kSameError * few.hidden) << rows;
    EXPECT_LE(many.weight, kSameError * few.weight) << rows;
  }
}
INSTANTIATE_TEST_SUITE_P(halves, LinearLogpTokens,
                         ::testing::Combine(::testing::ValuesIn(kHalves), ::testing::ValuesIn(kSoftmaxes)));

// Nor do more columns.
TEST(LinearLogpAccuracy, errors_do_not_grow_with_the_vocabulary) {
  for (const DType dtype : kHalves)
    for (const Softmax softmax : kSoftmaxes) {
      const auto errors = [&](std::int64_t vocab) {
        return expect_within(shaped_case(6, 48, vocab, 8, dtype, softmax), name_of(softmax));
      };
      const Errors few = errors(4096);
      for (const std::int64_t vocab : {32832, 131072}) {
        const Errors many = errors(vocab);
        EXPECT_LE(many.hidden, kSameError * few.hidden) << vocab;
        EXPECT_LE(many.weight, kSameError * few.weight) << vocab;
      }
    }
}

}  // namespace
}  // namespace samebits::test
