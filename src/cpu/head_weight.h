// grad_weight and grad_bias: sums over the participating rows, ascending. CONTRACT section 4, points 6 and 7.
#pragma once

#include <cmath>
#include <span>

#include "cpu/head_call.h"
#include "cpu/number_runs.h"

namespace samebits::cpu {

// Positions of the participating rows whose target is `id`, ascending.
template <class F>
std::span<const std::int64_t> positions_of(const HeadCall<F>& call, std::int64_t id) {
  const std::int64_t *begin = call.at.by_target, *end = begin + call.count;
  const auto target = [&](std::int64_t t) { return call.at.rows[t].target; };
  const auto* first = std::partition_point(begin, end, [&](std::int64_t t) { return target(t) < id; });
  const auto* last = std::partition_point(first, end, [&](std::int64_t t) { return target(t) == id; });
  return {first, last};
}

template <class F>
class WeightGradient {
 public:
  using Real = typename F::Real;
  using Stored = typename F::Stored;

  explicit WeightGradient(const HeadCall<F>& call) : call_(call) {}

  void start() {
    float largest = 0;
    for (std::int64_t t = 0; t < call_.count; ++t)
      if (const float s = std::fabs(call_.at.rows[t].p.scale); order::is_finite(s))
        largest = std::max(largest, s);
    exponent_ = order::weight_exponent(largest);
  }

  // X of a block of rows; in binary64 hidden itself.
  void fill_x(std::int64_t first, std::int64_t rows) {
    const HeadCall<F>& c = call_;
    c.parallel_runs(rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const auto& row = c.at.rows[first + t];
        const float s = F::kP ? order::scaled(row.p.scale, -exponent_) : 1.0f;
        for (std::int64_t k = 0; k < c.size(); k += kRun) {
          const std::int64_t width = std::min(kRun, c.size() - k);
          Real values[kRun];
          hidden_run(first + t, k, width, values);
          for (std::int64_t i = 0; i < width; ++i) values[i] = F::kP ? s * values[i] : values[i];
          round_numbers(F::kStored, values, width, c.at.x, t * c.size() + k, 1);
        }
      }
    });
  }

  // A segment of rows; the last one finishes the columns.
  void add(std::int64_t column, std::int64_t columns, std::int64_t first, std::int64_t rows) {
    const HeadCall<F>& c = call_;
    const TileOperands operands{F::kStored, rows, c.at.p_stride, c.at.x, c.size(), 1};
    c.tiles(
        operands, c.split.weight, columns, c.size(), [&](std::int64_t v) { return c.at.p + v; },
        [&](std::int64_t v, std::int64_t height, std::int64_t k, std::int64_t width, const Tile<Real>& tile) {
          for (std::int64_t r = 0; r < height; ++r) {
            Real* values = tile.data + r * tile.stride;
            if (c.count > c.split.rows)
              add_segment(values, c.at.weight_sum + (v + r) * c.size() + k, width, first == 0);
            if (first + rows == c.count) finish(column + v + r, k, width, values);
          }
        });
  }

 private:
  // The segments so far, which come back in `values`.
  static void add_segment(Real* values, Real* sum, std::int64_t width, bool first) {
    for (std::int64_t i = 0; i < width; ++i) sum[i] = values[i] = first ? values[i] : sum[i] + values[i];
  }

  void hidden_run(std::int64_t t, std::int64_t k, std::int64_t width, Real* out) const {
    const std::int64_t stride = call_.problem.head.hidden_stride;
    widen_numbers(call_.dtype(), call_.at.rows[t].hidden, k * stride, stride, width, out);
  }

  void finish(std::int64_t v, std::int64_t k, std::int64_t width, Real* values) const {
    const HeadCall<F>& c = call_;
    if constexpr (F::kP) {
      float own[kRun] = {};
      add_targets(v, k, width, own);
      for (std::int64_t i = 0; i < width; ++i) values[i] = order::scaled(values[i], exponent_) + own[i];
    }
    const std::int64_t at = v * c.problem.grad_weight_stride + k;
    if (c.problem.accumulate) {
      Real* acc = static_cast<Real*>(c.problem.grad_weight) + at;
      for (std::int64_t i = 0; i < width; ++i) acc[i] = order::round_to<Real>(acc[i] + values[i]);
    } else {
      round_numbers(c.dtype(), values, width, c.problem.grad_weight, at, 1);
    }
  }

  // C: the rows whose target is v, in segments of 1024.
  void add_targets(std::int64_t v, std::int64_t k, std::int64_t width, float* total) const {
    const std::span<const std::int64_t> positions = positions_of(call_, v);
    float hidden[kRun], acc[kRun];
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (i % order::kOccurrences == 0) std::fill_n(acc, width, 0.0f);
      hidden_run(positions[i], k, width, hidden);
      call_.p_form.add_scaled32(call_.at.rows[positions[i]].target_gradient, hidden, acc, width);
      if ((i + 1) % order::kOccurrences == 0 || i + 1 == positions.size())
        for (std::int64_t n = 0; n < width; ++n) total[n] = total[n] + acc[n];
    }
  }

  const HeadCall<F>& call_;
  int exponent_ = 0;
};

template <class F>
class BiasGradient {
 public:
  using Real = typename F::Real;

  explicit BiasGradient(const HeadCall<F>& call) : call_(call) {}

  // A block of rows, a whole number of segments unless it is the last, which finishes the columns.
  void add(std::int64_t column, std::int64_t columns, std::int64_t first, std::int64_t rows) {
    call_.parallel_runs(columns, kRun, [&](std::int64_t begin, std::int64_t end) {
      if (first == 0) std::fill(call_.at.bias_total + begin, call_.at.bias_total + end, Real(0));
      for (std::int64_t t = 0; t < rows; ++t) add_row(first + t, t, begin, end);
      if (first + rows == call_.count) finish(column, begin, end);
    });
  }

 private:
  void add_row(std::int64_t position, std::int64_t row, std::int64_t begin, std::int64_t end) {
    const HeadCall<F>& c = call_;
    const std::int64_t width = end - begin;
    Real *acc = c.at.bias_acc + begin, *total = c.at.bias_total + begin;
    if (position % F::kBiasSegment == 0) std::fill_n(acc, width, Real(0));
    Real p[kRun] = {};
    widen_numbers(F::kStored, c.at.p, row * c.at.p_stride + begin, 1, width, p);
    const Real scale = F::kP ? static_cast<Real>(c.at.rows[position].p.scale) : Real(1);
    c.p_form.template add_scaled<Real>()(scale, p, acc, width);
    if ((position + 1) % F::kBiasSegment == 0 || position + 1 == c.count)
      for (std::int64_t i = 0; i < width; ++i) total[i] = total[i] + acc[i];
  }

  void finish(std::int64_t column, std::int64_t begin, std::int64_t end) {
    Real* total = call_.at.bias_total;
    if constexpr (F::kP)
      for (std::int64_t i = begin; i < end; ++i) total[i] = total[i] + target_sum(column + i);
    round_numbers(call_.dtype(), total + begin, end - begin, call_.problem.grad_bias,
                  (column + begin) * call_.problem.grad_bias_stride, call_.problem.grad_bias_stride);
  }

  // y of the rows whose target is v, in segments of 1024.
  float target_sum(std::int64_t v) const {
    const std::span<const std::int64_t> positions = positions_of(call_, v);
    float total = 0, acc = 0;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      acc = acc + static_cast<float>(call_.at.rows[positions[i]].target_gradient);
      if ((i + 1) % order::kOccurrences != 0 && i + 1 != positions.size()) continue;
      total = total + acc;
      acc = 0;
    }
    return total;
  }

  const HeadCall<F>& call_;
};

}  // namespace samebits::cpu
