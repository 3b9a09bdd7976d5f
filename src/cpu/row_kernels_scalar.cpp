// Row kernels in plain C++, for CPUs without a vector target. The same order, one lane at a time.
#include <algorithm>

#include "cpu/row_kernels.h"

namespace samebits::cpu {
namespace {

template <class Row, class In>
struct ScalarKernel {
  using Real = typename Row::Real;

  static void block_stats(const void* x, std::int64_t columns, Real inverse_tau, Real* m, Real* s, Real* u) {
    const In* in = static_cast<const In*>(x);
    for (std::int64_t first = 0; first < columns; first += order::kBlock)
      block(in + first, static_cast<int>(std::min<std::int64_t>(order::kBlock, columns - first)), inverse_tau,
            *m++, *s++, u == nullptr ? nullptr : u++);
  }

  static void block(const In* x, int columns, Real inverse_tau, Real& m, Real& s, Real* u) {
    Real z[order::kBlock];
    std::fill_n(z, order::kBlock, -order::infinity<Real>());
    Real max = z[0];
    bool nan = false;
    for (int i = 0; i < columns; ++i) {
      z[i] = order::widen<Real>(x[i]) * inverse_tau;
      max = z[i] > max ? z[i] : max;
      nan = nan || order::is_nan(z[i]);
    }
    m = nan ? order::canonical_nan<Real>() : max + Real(0);
    s = 0;
    if (u != nullptr) *u = 0;
    if (order::classify(m) != order::RowClass::kFinite) return;
    Real sums[order::kLanes] = {}, entropies[order::kLanes] = {};
    for (int i = 0; i < order::kBlock; ++i) {
      const Real d = std::max(z[i] - m, Row::kCut);
      const Real e = Row::exp(d);
      sums[i % order::kLanes] += e;
      if (u != nullptr) entropies[i % order::kLanes] = order::fma(e, -d, entropies[i % order::kLanes]);
    }
    s = order::combine_lanes(sums);
    if (u != nullptr) *u = order::combine_lanes(entropies);
  }

  static void gradient(const order::GradientRow<Row>& row, const void* x, void* dx, std::int64_t columns) {
    const In* in = static_cast<const In*>(x);
    In* out = static_cast<In*>(dx);
    for (std::int64_t i = 0; i < columns; ++i)
      out[i] = order::round_to<In>(
          order::gradient_column<Row>(row, order::widen<Real>(in[i]) * row.inverse_temperature));
  }
};

template <class Row>
order::RowStats<Row> combine(const typename Row::Real* m, const typename Row::Real* s,
                             const typename Row::Real* u, std::int64_t blocks) {
  using Real = typename Row::Real;
  order::RowStats<Row> stats{-order::infinity<Real>(), 0, 0};
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (order::is_nan(m[b])) return {order::canonical_nan<Real>(), 0, 0};
    stats.max = std::max(stats.max, m[b]);
  }
  if (order::classify(stats.max) != order::RowClass::kFinite) return stats;
  for (std::int64_t b = 0; b < blocks; ++b) {
    stats.sum += order::block_to_sum<Row>(m[b], s[b], stats.max);
    if (u != nullptr) stats.entropy_sum += order::block_to_entropy_sum<Row>(m[b], s[b], u[b], stats.max);
  }
  return stats;
}

template <class Row, class In>
void add_dtype(RowKernels<Row>& kernels, DType dtype) {
  kernels.block_stats[static_cast<int>(dtype)] = ScalarKernel<Row, In>::block_stats;
  kernels.gradient[static_cast<int>(dtype)] = ScalarKernel<Row, In>::gradient;
}

template <class Row>
RowKernels<Row> make_table() {
  RowKernels<Row> kernels;
  add_dtype<Row, float>(kernels, DType::kFloat32);
  if constexpr (sizeof(typename Row::Real) == 8) add_dtype<Row, double>(kernels, DType::kFloat64);
  add_dtype<Row, order::Float16>(kernels, DType::kFloat16);
  add_dtype<Row, order::BFloat16>(kernels, DType::kBFloat16);
  kernels.combine = combine<Row>;
  return kernels;
}

}  // namespace

const RowKernels<order::RowV1>* scalar_row_kernels() {
  static const auto table = make_table<order::RowV1>();
  return &table;
}

const RowKernels<order::Row64V1>* scalar_row64_kernels() {
  static const auto table = make_table<order::Row64V1>();
  return &table;
}

}  // namespace samebits::cpu
