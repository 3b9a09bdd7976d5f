#include "ref/linear_logp_backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "order/number.h"
#include "ref/logp.h"
#include "ref/matmul.h"
#include "ref/tc16.h"

namespace samebits::ref {
namespace {

using core::LinearLogpGradient;

// Element `at`, converted exactly.
template <class Real>
Real load(const void* data, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::kFloat32: return Real(static_cast<const float*>(data)[at]);
    case DType::kFloat64: return Real(static_cast<const double*>(data)[at]);
    case DType::kFloat16: return Real(order::to_float(static_cast<const order::Float16*>(data)[at]));
    default: return Real(order::to_float(static_cast<const order::BFloat16*>(data)[at]));
  }
}

// One rounding to the type stored.
template <class Real>
void store(void* data, DType dtype, std::int64_t at, Real value) {
  switch (dtype) {
    case DType::kFloat32: static_cast<float*>(data)[at] = order::round_to<float>(value); break;
    case DType::kFloat64: static_cast<double*>(data)[at] = order::round_to<double>(double(value)); break;
    case DType::kFloat16:
      static_cast<order::Float16*>(data)[at] = order::round_to<order::Float16>(value);
      break;
    default: static_cast<order::BFloat16*>(data)[at] = order::round_to<order::BFloat16>(value);
  }
}

// The GEMM contract of a call: its dot product, and RN16, which rounds nothing under fma.
struct Gemm {
  bool tc16;
  DType dtype;

  float rn16(float value) const {
    if (!tc16) return value;
    return dtype == DType::kBFloat16 ? order::to_float(order::round_to<order::BFloat16>(value))
                                     : order::to_float(order::round_to<order::Float16>(value));
  }
  float dot(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
            std::int64_t n) const {
    return tc16 ? dot16(a, a_stride, b, b_stride, n) : dot_fma(a, a_stride, b, b_stride, n);
  }
  double dot(const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride,
             std::int64_t n) const {
    return dot_fma64(a, a_stride, b, b_stride, n);
  }

 private:
  float dot16(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
              std::int64_t n) const {
    std::vector<Tc16Number> x(n), y(n);
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] = number16(a[i * a_stride]);
      y[i] = number16(b[i * b_stride]);
    }
    return dot_tc16(x.data(), 1, y.data(), 1, n);
  }
  Tc16Number number16(float value) const {
    return tc16_number(dtype, dtype == DType::kBFloat16 ? order::round_to<order::BFloat16>(value).bits
                                                        : order::round_to<order::Float16>(value).bits);
  }
};

// A participating row.
template <class Real>
struct Token {
  std::int64_t row, target;
  Statistics<Real> stats;
  Upstream<Real> upstream;
  Real it;
  std::vector<Real> hidden, z;
};

template <class Real>
std::vector<Real> dense_weight(const LinearLogpGradient& problem) {
  const core::Operand& weight = problem.head.weight;
  const std::int64_t V = problem.head.logp.vocab, H = problem.head.hidden_size;
  std::vector<Real> w(V * H);
  for (std::int64_t v = 0; v < V; ++v)
    for (std::int64_t k = 0; k < H; ++k)
      w[v * H + k] = load<Real>(weight.data, problem.head.hidden.dtype,
                                v * weight.row_stride + k * weight.column_stride);
  return w;
}

// The participating rows in ascending order, their logits recomputed.
template <class Real>
std::vector<Token<Real>> participating(const LinearLogpGradient& problem, const std::vector<Real>& W) {
  const core::LinearLogpProblem& head = problem.head;
  const DType dtype = head.hidden.dtype;
  const Gemm gemm{head.tc16, dtype};
  const std::int64_t V = head.logp.vocab, H = head.hidden_size;
  const auto upstream = [](const core::RowArray<const void>& values, std::int64_t row) {
    return values ? *values.at<Real>(row) : Real(0);
  };
  std::vector<Token<Real>> tokens;
  for (std::int64_t row = 0; row < head.logp.rows; ++row) {
    const std::int64_t id = head.logp.target(row);
    if (head.logp.kind(row, id) != core::RowKind::kLive) continue;
    Token<Real> token{row,
                      id,
                      saved_statistics<Real>(head.logp, row),
                      {upstream(head.logp.grad_logp, row), upstream(head.logp.grad_lse, row),
                       upstream(head.logp.grad_entropy, row)},
                      inverse_temperature<Real>(head.logp.tau(row)),
                      std::vector<Real>(H),
                      std::vector<Real>(V)};
    for (std::int64_t k = 0; k < H; ++k)
      token.hidden[k] =
          load<Real>(head.hidden.data, dtype, head.hidden.index.offset(row) + k * head.hidden_stride);
    for (std::int64_t v = 0; v < V; ++v) {
      Real x = gemm.dot(token.hidden.data(), 1, W.data() + v * H, 1, H);
      if (head.bias != nullptr) x = x + load<Real>(head.bias, dtype, v * head.bias_stride);
      token.z[v] = x * token.it;
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Rows that take no part and entries of padding columns have +0; the accumulator keeps what it has there.
void clear(const LinearLogpGradient& problem) {
  const core::LinearLogpProblem& head = problem.head;
  const DType dtype = head.hidden.dtype;
  for (std::int64_t row = 0; problem.grad_hidden && row < head.logp.rows; ++row)
    for (std::int64_t k = 0; k < head.hidden_size; ++k)
      store(problem.grad_hidden.data, dtype, problem.grad_hidden.index.offset(row) + k, 0.0f);
  for (std::int64_t v = head.logp.vocab; v < problem.weight_rows; ++v) {
    for (std::int64_t k = 0; problem.grad_weight != nullptr && !problem.accumulate && k < head.hidden_size;
         ++k)
      store(problem.grad_weight, dtype, v * problem.grad_weight_stride + k, 0.0f);
    if (problem.grad_bias != nullptr) store(problem.grad_bias, dtype, v * problem.grad_bias_stride, 0.0f);
  }
}

// Element (v, k) of grad_weight, or what is added to the accumulator.
template <class Real>
void give_weight(const LinearLogpGradient& problem, std::int64_t v, std::int64_t k, Real value) {
  const std::int64_t at = v * problem.grad_weight_stride + k;
  if (!problem.accumulate) return store(problem.grad_weight, problem.head.hidden.dtype, at, value);
  Real& acc = static_cast<Real*>(problem.grad_weight)[at];
  acc = order::round_to<Real>(acc + value);
}

// Section 5: terms are added in segments of 1024, and the segments from +0. `step(acc, i)` adds term i.
template <class Step>
float in_segments(std::int64_t count, Step step) {
  float total = 0;
  for (std::int64_t begin = 0; begin < count; begin += 1024) {
    float acc = 0;
    for (std::int64_t i = begin; i < std::min(begin + 1024, count); ++i) acc = step(acc, i);
    total = total + acc;
  }
  return total;
}

// 1. Reference.
float reference(const Token<float>& token, const Gemm& gemm) {
  const float M = token.stats.M, z_t = token.z[token.target];
  if (!gemm.tc16) return M;
  if (gemm.dtype == DType::kBFloat16) return M - z_t <= 60.0f ? z_t : M;
  const double L = order::log64(Numbers<float>::rn64(token.stats.S) * 0x1p-40);
  return float((double(M) + L) - 10.0);
}

float scaled(float value, int n) { return float(std::ldexp(double(value), n)); }

void p_form(const LinearLogpGradient& problem) {
  const core::LinearLogpProblem& head = problem.head;
  const DType dtype = head.hidden.dtype;
  const Gemm gemm{head.tc16, dtype};
  const std::int64_t V = head.logp.vocab, H = head.hidden_size;
  const std::vector<float> W = dense_weight<float>(problem);
  const std::vector<Token<float>> tokens = participating<float>(problem, W);
  const std::int64_t T = static_cast<std::int64_t>(tokens.size());
  constexpr float inf = std::numeric_limits<float>::infinity();

  std::vector<float> P(T * V, 0.0f), s(T, 0.0f), y(T, 0.0f), r(T, 0.0f);
  for (std::int64_t t = 0; t < T; ++t) {
    const Token<float>& token = tokens[t];
    const auto& [M, S, U] = token.stats;
    const auto [g, h, e] = token.upstream;
    // 4. The target column, exact.
    std::vector<float> dx(V);
    row_gradient<float>(token.stats, token.z, token.target, token.it, token.upstream, dx);
    y[t] = dx[token.target];
    if (M == -inf) continue;  // P, s and y are +0
    if (std::isnan(M) || M == inf) {
      std::fill_n(P.begin() + t * V, V, Numbers<float>::nan());
      s[t] = Numbers<float>::nan();
      continue;
    }
    r[t] = reference(token, gemm);
    const double total = double(S) * 0x1p-40, eta = double(U) / double(S);
    // 3. Row scale.
    const float f = float(order::exp64(double(r[t]) - double(M)) / total);
    int a = 0;
    if (e == 0) {
      s[t] = ((h - g) * f) * token.it;
    } else {
      const float reach = float(std::fabs(double(h) - double(g)) + std::fabs(double(e)) * (128.0 + eta));
      a = std::isfinite(reach) ? 1 + std::ilogb(reach) : 129;
      s[t] = scaled(f, a) * token.it;
    }
    // 2. P.
    for (std::int64_t i = 0; i < V; ++i) {
      const float E = e0<float>(token.z[i] - r[t]);
      if (i == token.target || E == 0) continue;  // +0
      const float k = std::fma(-e, token.z[i] - M, float((double(h) - double(g)) - double(e) * eta));
      P[t * V + i] = gemm.rn16(e == 0 ? E : E * scaled(k, -a));
    }
  }

  // 5. grad_hidden.
  float wmax = 0;
  for (const float w : W)
    wmax = std::isnan(w) || std::isnan(wmax) ? Numbers<float>::nan() : std::max(wmax, std::fabs(w));
  const std::int64_t slice = 16 * ((V + 127) / 128);
  for (std::int64_t t = 0; problem.grad_hidden && t < T; ++t) {
    const Token<float>& token = tokens[t];
    const float M = token.stats.M;
    bool nan = !std::isfinite(wmax) || std::isnan(M) || M == inf;
    const bool zero = wmax == 0 || M == -inf;
    const int w = nan || zero ? 0
                              : 60 - std::ilogb(order::exp64(double(M) - double(r[t])) *
                                                (double(token.stats.S) * 0x1p-40) * double(wmax));
    std::vector<float> A(H, 0.0f);
    for (std::int64_t k = 0; k < H && !nan && !zero; ++k) {
      std::int64_t N = 0;
      for (std::int64_t b = 0; b < 8; ++b) {
        const std::int64_t end = std::min((b + 1) * slice, V);
        for (std::int64_t c = b * slice; c < end; c += 8192) {
          const float D = gemm.dot(&P[t * V + c], 1, &W[c * H + k], H, std::min<std::int64_t>(8192, end - c));
          nan = nan || !std::isfinite(D);
          if (!nan) N += std::llrint(std::ldexp(double(D), w));
        }
      }
      A[k] = float(std::ldexp(double(N), -w));
    }
    for (std::int64_t k = 0; k < H; ++k)
      store(problem.grad_hidden.data, dtype, problem.grad_hidden.index.offset(token.row) + k,
            nan ? Numbers<float>::nan() : std::fma(y[t], W[token.target * H + k], s[t] * A[k]));
  }

  std::vector<std::vector<std::int64_t>> with_target(V);  // positions, ascending
  for (std::int64_t t = 0; t < T; ++t) with_target[tokens[t].target].push_back(t);

  // 6. grad_weight.
  if (problem.grad_weight != nullptr) {
    float largest = 0;
    for (const float value : s)
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    const int j = largest == 0 ? 0 : 1 + std::ilogb(largest);
    std::vector<float> X(T * H);
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t k = 0; k < H; ++k) X[t * H + k] = gemm.rn16(scaled(s[t], -j) * tokens[t].hidden[k]);
    for (std::int64_t v = 0; v < V; ++v)
      for (std::int64_t k = 0; k < H; ++k) {
        const float B = scaled(gemm.dot(P.data() + v, V, X.data() + k, H, T), j);
        const std::vector<std::int64_t>& mine = with_target[v];
        const float C = in_segments(static_cast<std::int64_t>(mine.size()), [&](float acc, std::int64_t i) {
          return std::fma(y[mine[i]], tokens[mine[i]].hidden[k], acc);
        });
        give_weight<float>(problem, v, k, B + C);
      }
  }

  // 7. grad_bias.
  for (std::int64_t v = 0; problem.grad_bias != nullptr && v < V; ++v) {
    const std::vector<std::int64_t>& mine = with_target[v];
    const float others =
        in_segments(T, [&](float acc, std::int64_t t) { return std::fma(s[t], P[t * V + v], acc); });
    const float own = in_segments(static_cast<std::int64_t>(mine.size()),
                                  [&](float acc, std::int64_t i) { return acc + y[mine[i]]; });
    store(problem.grad_bias, dtype, v * problem.grad_bias_stride, others + own);
  }
}

// fma64.v1+row64.v1: the gradient of row64.v1 on the participating rows, and three products of it.
void unfused(const LinearLogpGradient& problem) {
  const std::int64_t V = problem.head.logp.vocab, H = problem.head.hidden_size;
  const std::vector<double> W = dense_weight<double>(problem);
  const std::vector<Token<double>> tokens = participating<double>(problem, W);
  const std::int64_t T = static_cast<std::int64_t>(tokens.size());
  std::vector<double> dx(T * V), hidden(T * H), ones(T, 1.0);
  for (std::int64_t t = 0; t < T; ++t) {
    const Token<double>& token = tokens[t];
    row_gradient<double>(token.stats, token.z, token.target, token.it, token.upstream,
                         std::span(&dx[t * V], V));
    std::copy(token.hidden.begin(), token.hidden.end(), hidden.begin() + t * H);
  }
  for (std::int64_t t = 0; problem.grad_hidden && t < T; ++t)
    for (std::int64_t k = 0; k < H; ++k)
      store(problem.grad_hidden.data, DType::kFloat64, problem.grad_hidden.index.offset(tokens[t].row) + k,
            dot_fma64(&dx[t * V], 1, &W[k], H, V));
  for (std::int64_t v = 0; v < V; ++v) {
    for (std::int64_t k = 0; problem.grad_weight != nullptr && k < H; ++k)
      give_weight<double>(problem, v, k, dot_fma64(dx.data() + v, V, hidden.data() + k, H, T));
    if (problem.grad_bias != nullptr)
      store(problem.grad_bias, DType::kFloat64, v * problem.grad_bias_stride,
            dot_fma64(ones.data(), 1, dx.data() + v, V, T));
  }
}

}  // namespace

void linear_logp_backward(const LinearLogpGradient& problem) {
  clear(problem);
  problem.head.logp.binary64 ? unfused(problem) : p_form(problem);
}

}  // namespace samebits::ref
