// The participating rows of a linear_logp gradient: what is known of each before the vocabulary is walked.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/linear_logp_gradient.h"
#include "cpu/logp_rows.h"
#include "order/p_form.h"

namespace samebits::cpu {

template <class Row>
struct HeadRow {
  using Real = typename Row::Real;
  const void* hidden;
  std::int64_t row, target;  // number in the problem, id
  Real inverse_tau;
  order::RowStats<Row> stats;
  Real g, h, e;                     // upstreams of logp, lse, entropy
  order::GradientRow<Row> columns;  // of the columns that are not the target
  order::PRow p;                    // row.v1 alone; its `kind` holds for both
  Real target_gradient;             // y_t, known once the target's column was computed
  int hidden_exponent;              // w_t
  int hidden_nan;                   // 1: grad_hidden of this row is NaN; written by any thread
};

// Everything of a row but what needs its target's logit.
template <class Row>
HeadRow<Row> head_row(const core::LinearLogpProblem& head, std::int64_t row, std::int64_t id) {
  using Real = typename Row::Real;
  const core::LogpProblem& logp = head.logp;
  const auto upstream = [row](const core::RowArray<const void>& values) {
    return values ? *values.at<Real>(row) : Real(0);
  };
  HeadRow<Row> out{};
  out.hidden = static_cast<const std::byte*>(head.hidden.data) +
               head.hidden.index.offset(row) * dtype_size(head.hidden.dtype);
  out.row = row;
  out.target = id;
  out.inverse_tau = order::inverse_temperature<Row>(logp.tau(row));
  out.stats = {static_cast<const Real*>(logp.saved_max)[row], load_sum<Row>(logp.saved_sum, row),
               load_sum<Row>(logp.saved_entropy_sum, row)};
  out.g = upstream(logp.grad_logp);
  out.h = upstream(logp.grad_lse);
  out.e = upstream(logp.grad_entropy);
  out.p.kind = order::classify(out.stats.max);
  if (out.p.kind == order::RowClass::kNan) {
    out.p.scale = order::canonical_nan<float>();
    out.target_gradient = order::canonical_nan<Real>();
  }
  return out;
}

// The rest of a row whose M is finite. Under kMax and kShifted, and in binary64, z_target may be anything.
template <class Row>
void measure_row(HeadRow<Row>& row, order::Reference rule, typename Row::Real z_target) {
  row.columns = order::gradient_row<Row>(row.stats, z_target, row.inverse_tau, row.g, row.h, row.e);
  if constexpr (sizeof(typename Row::Real) == 4)
    row.p = order::p_row(row.stats, row.columns, order::reference_of(rule, row.stats, z_target), row.g, row.h,
                         row.e);
}

// The target's column is known: y_t.
template <class Row>
void settle_target(HeadRow<Row>& row, typename Row::Real z_target) {
  if (row.p.kind != order::RowClass::kFinite) return;
  const auto gradient = order::gradient_row<Row>(row.stats, z_target, row.inverse_tau, row.g, row.h, row.e);
  row.target_gradient = order::gradient_target<Row>(gradient, z_target);
}

// Positions of rows with the same target, one run after the other, each ascending.
template <class Row>
void sort_by_target(const HeadRow<Row>* rows, std::int64_t count, std::int64_t* positions) {
  for (std::int64_t t = 0; t < count; ++t) positions[t] = t;
  std::sort(positions, positions + count, [rows](std::int64_t a, std::int64_t b) {
    return rows[a].target != rows[b].target ? rows[a].target < rows[b].target : a < b;
  });
}

}  // namespace samebits::cpu
