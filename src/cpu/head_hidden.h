// grad_hidden: integers per row and element, to which segments of the vocabulary add in any order. CONTRACT section
// 4, point 5. In binary64 a sum of the segments, ascending.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>

#include "cpu/head_call.h"
#include "cpu/number_runs.h"

namespace samebits::cpu {

template <class F>
class HiddenGradient {
 public:
  using Real = typename F::Real;

  explicit HiddenGradient(const HeadCall<F>& call) : call_(call) {}

  void start() {
    const HeadCall<F>& c = call_;
    c.parallel_runs(c.count, 8, [&](std::int64_t first, std::int64_t last) {
      std::memset(c.at.counts + first * c.size(), 0, static_cast<std::size_t>((last - first) * c.size()) * 8);
    });
    if constexpr (!F::kP) return;
    largest_ = largest_weight();
    if (!adds()) return;
    for (std::int64_t t = 0; t < c.count; ++t)
      if (auto& row = c.at.rows[t]; row.p.kind == order::RowClass::kFinite)
        row.hidden_exponent = order::hidden_exponent(row.p, largest_);
  }

  // The products of P of `rows` rows from `first` on with the weight of a segment of columns.
  void add(std::int64_t column, std::int64_t columns, std::int64_t first, std::int64_t rows) {
    const HeadCall<F>& c = call_;
    if (!adds()) return;
    const core::Operand& weight = c.problem.head.weight;
    const TileOperands operands{
        c.dtype(),
        columns,
        1,
        static_cast<const std::byte*>(weight.data) + column * weight.row_stride * dtype_size(c.dtype()),
        weight.row_stride,
        weight.column_stride,
        !F::kHalf};
    c.tiles(
        operands, c.split.hidden, rows, c.size(), [&](std::int64_t r) { return c.at.p + r * c.at.p_stride; },
        [&](std::int64_t row, std::int64_t height, std::int64_t k, std::int64_t width,
            const Tile<Real>& tile) {
          for (std::int64_t r = 0; r < height; ++r)
            add_row(first + row + r, k, tile.data + r * tile.stride, width);
        });
  }

  void finish() {
    const HeadCall<F>& c = call_;
    c.parallel_runs(c.count, 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t t = first; t < last; ++t)
        for (std::int64_t k = 0; k < c.size(); k += kRun) finish_run(t, k, std::min(kRun, c.size() - k));
    });
  }

 private:
  // The largest |weight|, or one that is not finite where there is one.
  float largest_weight() const {
    const HeadCall<F>& c = call_;
    const core::Operand& weight = c.problem.head.weight;
    std::atomic<std::uint32_t> most{0};
    // Magnitudes compare as their bits, and NaN above infinity above all numbers.
    c.parallel_runs(c.vocab(), 16, [&](std::int64_t first, std::int64_t last) {
      std::uint32_t here = 0;
      with_number_type<float>(c.dtype(), [&]<class In>(In) {
        for (std::int64_t v = first; v < last; ++v) {
          const In* row = static_cast<const In*>(weight.data) + v * weight.row_stride;
          for (std::int64_t k = 0; k < c.size(); ++k)
            here =
                std::max(here, order::bits_to<std::uint32_t>(order::to_float(row[k * weight.column_stride])) &
                                   0x7fffffffu);
        }
      });
      std::uint32_t seen = most.load(std::memory_order_relaxed);
      while (seen < here && !most.compare_exchange_weak(seen, here, std::memory_order_relaxed)) {
      }
    });
    return order::bits_to<float>(most.load());
  }

  // Whether products can change anything.
  bool adds() const { return !F::kP || (order::is_finite(largest_) && largest_ != 0.0f); }

  void add_row(std::int64_t t, std::int64_t k, const Real* d, std::int64_t width) {
    const HeadCall<F>& c = call_;
    auto& row = c.at.rows[t];
    std::uint64_t* counts = c.at.counts + t * c.size() + k;
    if constexpr (F::kP) {
      if (row.p.kind != order::RowClass::kFinite) return;
      const double scale = order::power_of_2(row.hidden_exponent);
      bool finite = true;
      for (std::int64_t i = 0; i < width; ++i) {
        finite = finite && order::is_finite(d[i]);
        // Unsigned, so that statistics of another call give wrong sums and nothing worse.
        if (finite) counts[i] += static_cast<std::uint64_t>(std::llrint(static_cast<double>(d[i]) * scale));
      }
      if (!finite) std::atomic_ref(row.hidden_nan).store(1, std::memory_order_relaxed);
    } else {
      double* sums = reinterpret_cast<double*>(counts);
      for (std::int64_t i = 0; i < width; ++i) sums[i] = sums[i] + d[i];
    }
  }

  void finish_run(std::int64_t t, std::int64_t k, std::int64_t width) const {
    const HeadCall<F>& c = call_;
    const auto& row = c.at.rows[t];
    const std::uint64_t* counts = c.at.counts + t * c.size() + k;
    Real values[kRun];
    if constexpr (!F::kP) {
      std::memcpy(values, counts, static_cast<std::size_t>(width) * sizeof(Real));
    } else if (row.p.kind == order::RowClass::kNan || row.hidden_nan != 0 || !order::is_finite(largest_)) {
      std::fill_n(values, width, order::canonical_nan<float>());
    } else {
      const double down = order::power_of_2(-row.hidden_exponent);
      for (std::int64_t i = 0; i < width; ++i)
        values[i] = row.p.scale *
                    static_cast<float>(static_cast<double>(static_cast<std::int64_t>(counts[i])) * down);
      const core::Operand& weight = c.problem.head.weight;
      float target[kRun];
      widen_numbers(c.dtype(), weight.data, row.target * weight.row_stride + k * weight.column_stride,
                    weight.column_stride, width, target);
      c.p_form.add_scaled32(row.target_gradient, target, values, width);
    }
    round_numbers(c.dtype(), values, width, c.problem.grad_hidden.data,
                  c.problem.grad_hidden.index.offset(row.row) + k, 1);
  }

  const HeadCall<F>& call_;
  float largest_ = 0;
};

}  // namespace samebits::cpu
