// Gradients of linear_logp against binary64. The measure is the rms error of the exact result rounded to bfloat16
// (or float32): what any gradient of that type has to have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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
  std::vector<double> z(V), x(H);
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t k = 0; k < H; ++k) x[k] = element_value(head.hidden, t * H + k);
    double most = -INFINITY, sum = 0, mean = 0;
    for (std::int64_t v = 0; v < V; ++v) {
      z[v] = head.bias.count() > 0 ? element_value(head.bias, v) : 0.0;
      for (std::int64_t k = 0; k < H; ++k) z[v] += x[k] * W[v * H + k];
      most = std::max(most, z[v]);
    }
    for (const double value : z) sum += std::exp(value - most);
    for (const double value : z) mean += std::exp(value - most) / sum * (value - most);
    const auto upstream = [&](const Values& values) {
      return values.count() ? element_value(values, t) : 0.0;
    };
    const double g = upstream(head.logp.grad_logp), h = upstream(head.logp.grad_lse),
                 e = upstream(head.logp.grad_entropy);
    for (std::int64_t v = 0; v < V; ++v) {
      const double p = std::exp(z[v] - most) / sum;
      const double dz = (h - g) * p + (v == head.logp.targets[t] ? g : 0.0) - e * p * (z[v] - most - mean);
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

struct Bounds {
  double hidden, weight;
};

// CONTRACT section 4: 1.35 and 1.8 roundings of 16 bits.
constexpr Bounds kHalf{1.35, 1.8};

void expect_within(const HeadCase& head, DType measure, const Bounds& bounds) {
  const Exact wanted = exact(head);
  const HeadGradients actual = head_gradients(head, available_backends().front(), 2);
  const double hidden = in_roundings(actual.hidden, wanted.hidden, measure);
  const double weight = in_roundings(actual.weight, wanted.weight, measure);
  EXPECT_LE(hidden, bounds.hidden);
  EXPECT_LE(weight, bounds.weight);
}

TEST(LinearLogpAccuracy, gradients_of_16_bit_operands_err_as_one_or_two_roundings) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const double spread : {0.8, 6.0, 16.0}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " spread " + std::to_string(spread));
      expect_within(spread_case(1, 128, 2048, 64, dtype, spread), DType::kBFloat16, kHalf);
    }
}

// Every other row is peaked.
TEST(LinearLogpAccuracy, flat_and_peaked_rows_mix) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    HeadCase head = spread_case(2, 128, 2048, 64, dtype, 0.8);
    for (std::int64_t t = 0; t < 128; t += 2)
      for (std::int64_t k = 0; k < 64; ++k)
        set_element(head.hidden, t * 64 + k, element_value(head.hidden, t * 64 + k) * 16);
    expect_within(head, DType::kBFloat16, kHalf);
  }
}

TEST(LinearLogpAccuracy, entropy_upstreams_err_as_much) {
  for (const double spread : {0.8, 6.0}) {
    HeadCase head = spread_case(3, 128, 2048, 64, DType::kBFloat16, spread);
    Rng rng(3);
    head.logp.grad_entropy = normal_elements(rng, DType::kFloat32, 128);
    head.logp.grad_lse = normal_elements(rng, DType::kFloat32, 128);
    expect_within(head, DType::kBFloat16, kHalf);
  }
}

// A probability errs relatively by what its logit errs absolutely: logits of up to 64 in fp32, by 2^-19 and a little
// more from their chain, which is some 40 roundings of the probability.
TEST(LinearLogpAccuracy, gradients_of_float_operands) {
  for (const double spread : {0.8, 6.0, 16.0})
    expect_within(spread_case(4, 128, 2048, 64, DType::kFloat32, spread), DType::kFloat32, {60, 60});
}

// Truncating tensor-core chains are cut into segments: more rows or columns do not add up to more error.
TEST(LinearLogpAccuracy, a24_errors_do_not_grow_with_tokens) {
  for (const std::int64_t rows : {4096, 32768, 32769, 65600})
    expect_within(spread_case(5, rows, 48, 8, DType::kBFloat16, 1.0), DType::kBFloat16, kHalf);
}

TEST(LinearLogpAccuracy, errors_do_not_grow_with_the_vocabulary) {
  for (const std::int64_t vocab : {32832, 131072})
    expect_within(spread_case(6, 48, vocab, 8, DType::kBFloat16, 1.0), DType::kBFloat16, kHalf);
}

}  // namespace
}  // namespace samebits::test
