#include "cpu/logp.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/logp_rows.h"
#include "cpu/row_split.h"
#include "order/fp_env.h"

namespace samebits::cpu {
namespace {

// Block statistics of one row: [m, s, u], each `blocks` long, padded to whole cache lines.
template <class Real>
struct BlockBuffer {
  Real *m, *s, *u;

  static std::int64_t stride(std::int64_t blocks) { return (blocks + 15) / 16 * 16; }
  static std::size_t bytes(std::int64_t blocks) {
    return 3 * static_cast<std::size_t>(stride(blocks)) * sizeof(Real);
  }
  static BlockBuffer at(std::byte* memory, std::int64_t blocks, std::int64_t index, bool entropy) {
    Real* base = reinterpret_cast<Real*>(memory + static_cast<std::size_t>(index) * bytes(blocks));
    return {base, base + stride(blocks), entropy ? base + 2 * stride(blocks) : nullptr};
  }
};

template <class Row>
const RowKernels<Row>& kernels_of(Isa isa) {
  if constexpr (sizeof(typename Row::Real) == 4)
    return *row_kernels(isa);
  else
    return *row64_kernels(isa);
}

// A logit as the row computes with it.
template <class Real>
Real logit(const std::byte* row, DType dtype, std::int64_t column) {
  switch (dtype) {
    case DType::kFloat32: return static_cast<Real>(reinterpret_cast<const float*>(row)[column]);
    case DType::kFloat64: return static_cast<Real>(reinterpret_cast<const double*>(row)[column]);
    case DType::kFloat16: return order::widen<Real>(reinterpret_cast<const order::Float16*>(row)[column]);
    default: return order::widen<Real>(reinterpret_cast<const order::BFloat16*>(row)[column]);
  }
}

template <class Row>
class Forward {
 public:
  using Real = typename Row::Real;

  Forward(const core::LogpProblem& problem, const core::Executor& executor, Isa isa)
      : problem_(problem),
        executor_(executor),
        kernels_(kernels_of<Row>(isa)),
        stats_(kernels_.block_stats[static_cast<int>(problem.dtype)]),
        blocks_(order::block_count(problem.vocab)) {}

  void run() {
    const int threads = executor_.threads;
    const std::int64_t parts = parts_per_row(problem_.rows, blocks_, threads);
    if (parts == 1) return whole_rows();
    const std::int64_t part_blocks = (blocks_ + parts - 1) / parts;
    executor_.run(problem_.rows * parts, [&](std::int64_t begin, std::int64_t end) {
      const order::FpEnvGuard guard;
      for (std::int64_t item = begin; item < end; ++item)
        fill(item / parts, buffer(item / parts), (item % parts) * part_blocks, part_blocks);
    });
    const order::FpEnvGuard guard;
    for (std::int64_t row = 0; row < problem_.rows; ++row) finish(row, buffer(row));
  }

 private:
  void whole_rows() {
    std::atomic<std::int64_t> next{0};
    const std::int64_t workers = std::min<std::int64_t>(executor_.threads, problem_.rows);
    // Rows are handed out in runs long enough to amortise the counter when they are short.
    const std::int64_t run = std::clamp<std::int64_t>(kSerialElements / problem_.vocab, 1, 64);
    executor_.run(workers, [&](std::int64_t begin, std::int64_t end) {
      const order::FpEnvGuard guard;
      for (std::int64_t worker = begin; worker < end; ++worker)
        for (std::int64_t row = next.fetch_add(run); row < problem_.rows; row = next.fetch_add(run))
          for (std::int64_t r = row; r < std::min(row + run, problem_.rows); ++r) {
            fill(r, buffer(worker), 0, blocks_);
            finish(r, buffer(worker));
          }
    });
  }

  BlockBuffer<Real> buffer(std::int64_t index) const {
    return BlockBuffer<Real>::at(executor_.workspace.data(), blocks_, index, problem_.wants_entropy());
  }

  bool live(std::int64_t row) const {
    return problem_.kind(row, problem_.target(row)) == core::RowKind::kLive;
  }

  // Statistics of the blocks [first, first + count) of a row that takes part.
  void fill(std::int64_t row, const BlockBuffer<Real>& to, std::int64_t first, std::int64_t count) const {
    if (!live(row)) return;
    const std::int64_t column = first * order::kBlock;
    const std::int64_t columns = std::min(count * order::kBlock, problem_.vocab - column);
    if (columns <= 0) return;
    stats_(row_data(problem_.logits, row) + column * dtype_size(problem_.dtype), columns,
           order::inverse_temperature<Row>(problem_.tau(row)), to.m + first, to.s + first,
           to.u == nullptr ? nullptr : to.u + first);
  }

  void finish(std::int64_t row, const BlockBuffer<Real>& from) const {
    const std::int64_t id = problem_.target(row);
    if (write_other_row<Row>(problem_, row, problem_.kind(row, id))) return;
    const Real z = logit<Real>(row_data(problem_.logits, row), problem_.dtype, id) *
                   order::inverse_temperature<Row>(problem_.tau(row));
    write_live_row<Row>(problem_, row, kernels_.combine(from.m, from.s, from.u, blocks_), z);
  }

  const core::LogpProblem& problem_;
  const core::Executor& executor_;
  const RowKernels<Row>& kernels_;
  typename RowKernels<Row>::BlockStats stats_;
  std::int64_t blocks_;
};

template <class Row>
class Backward {
 public:
  using Real = typename Row::Real;

  Backward(const core::LogpProblem& problem, const core::Executor& executor, Isa isa)
      : problem_(problem),
        executor_(executor),
        gradient_(kernels_of<Row>(isa).gradient[static_cast<int>(problem.dtype)]),
        size_(dtype_size(problem.dtype)) {}

  void run() {
    const std::int64_t blocks = order::block_count(problem_.columns);
    const std::int64_t parts = parts_per_row(problem_.rows, blocks, executor_.threads);
    const std::int64_t part = (blocks + parts - 1) / parts * order::kBlock;
    std::atomic<std::int64_t> next{0};
    const std::int64_t items = problem_.rows * parts;
    executor_.run(std::min<std::int64_t>(executor_.threads, items), [&](std::int64_t begin,
                                                                        std::int64_t end) {
      const order::FpEnvGuard guard;
      for (std::int64_t worker = begin; worker < end; ++worker)
        for (std::int64_t item = next.fetch_add(1); item < items; item = next.fetch_add(1))
          columns(item / parts, (item % parts) * part, std::min((item % parts + 1) * part, problem_.columns));
    });
  }

 private:
  Real upstream(const core::RowArray<const void>& values, std::int64_t row) const {
    return values ? *values.at<Real>(row) : Real(0);
  }

  // The gradient of the columns [first, last) of one row.
  void columns(std::int64_t row, std::int64_t first, std::int64_t last) const {
    if (first >= last) return;
    std::byte* dx =
        static_cast<std::byte*>(problem_.grad_logits.data) + problem_.grad_logits.index.offset(row) * size_;
    const std::int64_t id = problem_.target(row);
    const order::RowStats<Row> stats{static_cast<const Real*>(problem_.saved_max)[row],
                                     load_sum<Row>(problem_.saved_sum, row),
                                     load_sum<Row>(problem_.saved_entropy_sum, row)};
    const bool live = problem_.kind(row, id) == core::RowKind::kLive;
    const order::RowClass kind = live ? order::classify(stats.max) : order::RowClass::kEmpty;
    // Padding columns get +0 in every row, and so does all of a row that takes no part or is all -inf.
    const std::int64_t end =
        kind == order::RowClass::kEmpty ? first : std::clamp(problem_.vocab, first, last);
    std::memset(dx + end * size_, 0, static_cast<std::size_t>((last - end) * size_));
    if (end == first) return;
    if (kind == order::RowClass::kNan) return fill_nan(dx, first, end);

    const std::byte* x = row_data(problem_.logits, row);
    const Real it = order::inverse_temperature<Row>(problem_.tau(row));
    const Real z_target = logit<Real>(x, problem_.dtype, id) * it;
    const auto gradient =
        order::gradient_row<Row>(stats, z_target, it, upstream(problem_.grad_logp, row),
                                 upstream(problem_.grad_lse, row), upstream(problem_.grad_entropy, row));
    gradient_(gradient, x + first * size_, dx + first * size_, end - first);
    if (id >= first && id < end) store(dx, id, order::gradient_target<Row>(gradient, z_target));
  }

  void fill_nan(std::byte* dx, std::int64_t first, std::int64_t last) const {
    for (std::int64_t i = first; i < last; ++i) store(dx, i, order::canonical_nan<Real>());
  }

  void store(std::byte* dx, std::int64_t column, Real value) const {
    std::byte* to = dx + column * size_;
    switch (problem_.dtype) {
      case DType::kFloat32: return put(to, order::round_to<float>(value));
      case DType::kFloat64: return put(to, order::round_to<double>(value));
      case DType::kFloat16: return put(to, order::round_to<order::Float16>(value));
      default: return put(to, order::round_to<order::BFloat16>(value));
    }
  }
  template <class T>
  static void put(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
  }

  const core::LogpProblem& problem_;
  const core::Executor& executor_;
  typename RowKernels<Row>::Gradient gradient_;
  std::int64_t size_;
};

template <template <class> class Pass>
void run(const core::LogpProblem& problem, core::Executor executor, Isa isa) {
  executor.threads = threads_for(problem.rows, problem.vocab, executor.threads);
  if (problem.binary64)
    Pass<order::Row64V1>(problem, executor, isa).run();
  else
    Pass<order::RowV1>(problem, executor, isa).run();
}

}  // namespace

void logp_forward(const core::LogpProblem& problem, const core::Executor& executor, Isa isa) {
  run<Forward>(problem, executor, isa);
}

void logp_backward(const core::LogpProblem& problem, const core::Executor& executor, Isa isa) {
  run<Backward>(problem, executor, isa);
}

std::size_t logp_scratch_bytes(const core::LogpProblem& problem, int threads) {
  threads = threads_for(problem.rows, problem.vocab, threads);
  const std::int64_t blocks = order::block_count(problem.vocab);
  const std::int64_t parts = parts_per_row(problem.rows, blocks, threads);
  const std::int64_t rows = parts > 1 ? problem.rows : std::min<std::int64_t>(threads, problem.rows);
  return static_cast<std::size_t>(rows) *
         (problem.binary64 ? BlockBuffer<double>::bytes(blocks) : BlockBuffer<float>::bytes(blocks));
}

}  // namespace samebits::cpu
