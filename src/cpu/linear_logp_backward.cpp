#include "cpu/linear_logp_backward.h"

#include <cstring>

#include "cpu/head_hidden.h"
#include "cpu/head_weight.h"
#include "cpu/matmul_kernels.h"

namespace samebits::cpu {
namespace {

using order::RowClass;

template <class F>
class Backward {
 public:
  using Real = typename F::Real;
  using Row = typename F::Row;
  using Stored = typename F::Stored;

  Backward(const core::LinearLogpGradient& problem, const core::Executor& executor,
           const typename F::Worker::Kernels& product, Isa isa)
      : call_(problem, executor, product, row_kernels_of<Row>(isa), *p_form_kernels(isa)),
        head_(problem.head),
        hidden_(call_),
        weight_(call_),
        bias_(call_) {}

  void run() {
    const order::FpEnvGuard guard;
    const bool hidden = bool{call_.problem.grad_hidden}, weight = call_.problem.grad_weight != nullptr;
    gather();
    clear();
    if (hidden) hidden_.start();
    if (weight) weight_.start();
    sort_by_target(call_.at.rows, call_.count, call_.at.by_target);
    const std::int64_t vocab = call_.vocab(), step = call_.split.columns;
    const std::int64_t slice = F::kP && hidden ? order::slice_columns(vocab) : vocab;
    for (std::int64_t begin = 0; begin < vocab; begin += slice)
      for (std::int64_t column = begin, end = std::min(begin + slice, vocab); column < end; column += step)
        walk_rows(column, std::min(step, end - column));
    if (hidden) hidden_.finish();
  }

 private:
  void gather() {
    const core::LogpProblem& logp = head_.logp;
    for (std::int64_t row = 0; row < logp.rows; ++row) {
      const std::int64_t id = logp.target(row);
      if (logp.kind(row, id) == core::RowKind::kLive)
        call_.at.rows[call_.count++] = head_row<Row>(head_, row, id);
    }
    const TileOperands operands = logits_operands();
    call_.parallel(call_.count, [&](std::byte* scratch) {
      return [&, worker = typename F::Worker(call_.product, operands, kOneElement, scratch)](
                 std::int64_t t) mutable {
        HeadRow<Row>& row = call_.at.rows[t];
        if (row.p.kind != RowClass::kFinite) return;
        Real z = row.stats.max;
        if constexpr (F::kReference == order::Reference::kTarget) {
          Real* x = worker.compute(&row.hidden, 1, row.target, 1).data;
          add_bias(x, row.target, 1);
          z = x[0] * row.inverse_tau;
        }
        measure_row<Row>(row, F::kReference, z);
      };
    });
  }

  // Rows that take no part and padding columns have +0. An accumulator keeps what it has there.
  void clear() {
    const core::LinearLogpGradient& problem = call_.problem;
    const std::int64_t element = dtype_size(call_.dtype());
    const auto row_bytes = static_cast<std::size_t>(call_.size() * element);
    std::int64_t next = 0;
    for (std::int64_t row = 0; problem.grad_hidden && row < head_.logp.rows; ++row) {
      if (next < call_.count && call_.at.rows[next].row == row)
        ++next;
      else
        std::memset(static_cast<std::byte*>(problem.grad_hidden.data) +
                        problem.grad_hidden.index.offset(row) * element,
                    0, row_bytes);
    }
    for (std::int64_t v = call_.vocab(); v < problem.weight_rows; ++v) {
      if (problem.grad_weight != nullptr && !problem.accumulate)
        std::memset(static_cast<std::byte*>(problem.grad_weight) + v * problem.grad_weight_stride * element,
                    0, row_bytes);
      if (problem.grad_bias != nullptr)
        std::memset(static_cast<std::byte*>(problem.grad_bias) + v * problem.grad_bias_stride * element, 0,
                    static_cast<std::size_t>(element));
    }
  }

  // All rows, a block at a time, for the columns [column, column + columns).
  void walk_rows(std::int64_t column, std::int64_t columns) {
    std::int64_t first = 0;
    do {  // once where there are none, for the sums of nothing
      const std::int64_t rows = std::min(call_.split.rows, call_.count - first);
      fill_p(column, columns, first, rows);
      if (call_.problem.grad_hidden) hidden_.add(column, columns, first, rows);
      if (call_.problem.grad_weight != nullptr) {
        if (column == 0 || call_.count > call_.split.rows) weight_.fill_x(first, rows);
        weight_.add(column, columns, first, rows);
      }
      if (call_.problem.grad_bias != nullptr) bias_.add(column, columns, first, rows);
      first += rows;
    } while (first < call_.count);
  }

  TileOperands logits_operands() const {
    return {call_.dtype(),
            call_.size(),
            head_.hidden_stride,
            head_.weight.data,
            head_.weight.column_stride,
            head_.weight.row_stride};
  }

  void add_bias(Real* x, std::int64_t column, std::int64_t columns) const {
    if (head_.bias == nullptr) return;
    with_number_type<Real>(call_.dtype(), [&]<class In>(In) {
      const In* bias = static_cast<const In*>(head_.bias) + column * head_.bias_stride;
      for (std::int64_t c = 0; c < columns; ++c)
        x[c] = x[c] + order::widen<Real>(bias[c * head_.bias_stride]);
    });
  }

  // P of a block of rows and columns (in binary64 the gradient of the logits), and y of the targets among them.
  void fill_p(std::int64_t column, std::int64_t columns, std::int64_t first, std::int64_t rows) {
    TileOperands operands = logits_operands();
    operands.b = static_cast<const std::byte*>(operands.b) +
                 column * operands.b_column_stride * dtype_size(call_.dtype());
    call_.tiles(
        operands, call_.split.logits, rows, columns,
        [&](std::int64_t r) { return call_.at.rows[first + r].hidden; },
        [&](std::int64_t row, std::int64_t height, std::int64_t c, std::int64_t width,
            const Tile<Real>& tile) {
          for (std::int64_t r = row; r < row + height; ++r) {
            Real* x = tile.data + (r - row) * tile.stride;
            add_bias(x, column + c, width);
            fill_row(call_.at.rows[first + r], x, column + c, width, call_.at.p + r * call_.at.p_stride + c);
          }
        });
  }

  void fill_row(HeadRow<Row>& row, Real* x, std::int64_t column, std::int64_t columns, Stored* p) const {
    if (row.p.kind != RowClass::kFinite) {
      const Real value = row.p.kind == RowClass::kNan ? order::canonical_nan<Real>() : Real(0);
      std::fill_n(p, columns, order::round_to<Stored>(value));
      return;
    }
    const std::int64_t target = row.target - column;
    const bool here = target >= 0 && target < columns;
    if (here) settle_target<Row>(row, x[target] * row.inverse_tau);
    if constexpr (!F::kP) {
      call_.row_kernels.gradient[static_cast<int>(DType::kFloat64)](row.columns, x, p, columns);
      if (here) p[target] = row.target_gradient;
    } else if constexpr (F::kHalf) {
      call_.p_form.columns(row.p, row.inverse_tau, x, x, columns);
      for (std::int64_t c = 0; c < columns; ++c) p[c] = order::round_to<Stored>(x[c]);
      if (here) p[target] = Stored{0};
    } else {
      call_.p_form.columns(row.p, row.inverse_tau, x, p, columns);
      if (here) p[target] = 0;
    }
  }

  HeadCall<F> call_;
  const core::LinearLogpProblem& head_;
  HiddenGradient<F> hidden_;
  WeightGradient<F> weight_;
  BiasGradient<F> bias_;
};

using Fma32 = Form<TileWorker<float>, order::RowV1, float>;
using Fma64 = Form<TileWorker<double>, order::Row64V1, double>;
template <class T>
using Tc16Form = Form<Tc16TileWorker, order::RowV1, T>;

// `body` with the form of the problem's contract.
template <class Body>
auto with_form(const core::LinearLogpGradient& problem, Body&& body) {
  if (problem.head.tc16)
    return problem.head.hidden.dtype == DType::kBFloat16 ? body(Tc16Form<order::BFloat16>{})
                                                         : body(Tc16Form<order::Float16>{});
  return problem.head.logp.binary64 ? body(Fma64{}) : body(Fma32{});
}

template <class F>
typename F::Worker::Kernels product_kernels(Isa isa) {
  if constexpr (F::kHalf)
    return {*tc16_kernels(isa), matmul_kernels(isa)->f32};
  else
    return matmul_kernels(isa)->of<typename F::Real>();
}

}  // namespace

void linear_logp_backward(const core::LinearLogpGradient& problem, const core::Executor& executor, Isa isa) {
  with_form(problem, [&]<class F>(F) { Backward<F>(problem, executor, product_kernels<F>(isa), isa).run(); });
}

std::size_t linear_logp_backward_scratch_bytes(const core::LinearLogpGradient& problem, int threads) {
  return with_form(problem, [&]<class F>(F) -> std::size_t {
    return Buffers<F>(problem, Split<F>(problem, threads), nullptr).bytes;
  });
}

}  // namespace samebits::cpu
