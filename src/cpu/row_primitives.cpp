#include "cpu/row_primitives.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "cpu/logp_rows.h"
#include "cpu/row_primitive_kernels.h"
#include "cpu/row_split.h"
#include "cpu/workers.h"
#include "order/row_sum.h"

namespace samebits::cpu {
namespace {

template <class Row>
class Probability {
 public:
  using Real = typename Row::Real;

  Probability(const core::LogpProblem& problem, Isa isa)
      : problem_(problem),
        kernel_(row_primitive_kernels<Row>(isa)->probability[static_cast<int>(problem.dtype)]) {}

  void run(const core::Executor& executor) const {
    const int threads = threads_for(problem_.rows, problem_.vocab, executor.threads);
    const std::int64_t blocks = order::block_count(problem_.columns);
    const std::int64_t parts = parts_per_row(problem_.rows, blocks, threads);
    const std::int64_t part = (blocks + parts - 1) / parts * order::kBlock;
    run_workers(executor, problem_.rows * parts, threads, nullptr, 0, [&](std::byte*) {
      return [&](std::int64_t item) {
        columns(item / parts, (item % parts) * part, std::min((item % parts + 1) * part, problem_.columns));
      };
    });
  }

 private:
  // The columns [first, last) of one row.
  void columns(std::int64_t row, std::int64_t first, std::int64_t last) const {
    if (first >= last) return;
    Real* p = problem_.probabilities.at<Real>(row);
    const Real max = static_cast<const Real*>(problem_.saved_max)[row];
    const bool live = problem_.kind(row, problem_.target(row)) == core::RowKind::kLive;
    const order::RowClass kind = live ? order::classify(max) : order::RowClass::kEmpty;
    // Padding columns are +0 in every row, and so is all of a row that takes no part or is all -inf.
    const std::int64_t end =
        kind == order::RowClass::kEmpty ? first : std::clamp(problem_.vocab, first, last);
    std::fill(p + end, p + last, Real(0));
    if (kind == order::RowClass::kNan) return std::fill(p + first, p + end, order::canonical_nan<Real>());
    if (end == first) return;
    kernel_(row_data(problem_.logits, row) + first * dtype_size(problem_.dtype), end - first,
            order::inverse_temperature<Row>(problem_.tau(row)), max,
            order::probability_scale<Row>(load_sum<Row>(problem_.saved_sum, row)), p + first);
  }

  const core::LogpProblem& problem_;
  typename RowPrimitiveKernels<Row>::Probability kernel_;
};

// Parts of a row are subtrees of equal height, so that their sums are combined by the rest of the tree.
std::int64_t part_columns(const core::RowSumProblem& problem, int threads) {
  const std::int64_t blocks = std::max<std::int64_t>(order::block_count(problem.columns), 1);
  const std::int64_t parts = parts_per_row(problem.rows, blocks, threads);
  const auto part_blocks = std::bit_ceil(static_cast<std::uint64_t>((blocks + parts - 1) / parts));
  return static_cast<std::int64_t>(part_blocks) * order::kBlock;
}

template <class Row>
class RowSum {
 public:
  using Real = typename Row::Real;

  RowSum(const core::RowSumProblem& problem, Isa isa)
      : problem_(problem), sum_(row_primitive_kernels<Row>(isa)->sum) {}

  void run(const core::Executor& executor) const {
    const int threads = threads_for(problem_.rows, problem_.columns, executor.threads);
    const std::int64_t part = part_columns(problem_, threads);
    const std::int64_t parts = (problem_.columns + part - 1) / part;
    if (parts <= 1) return whole_rows(executor, threads);

    Real* partial = reinterpret_cast<Real*>(executor.workspace.data());
    run_workers(executor, problem_.rows * parts, threads, nullptr, 0, [&](std::byte*) {
      return [&](std::int64_t item) {
        const std::int64_t first = item % parts * part;
        partial[item] =
            sum_(problem_.values.at<Real>(item / parts) + first, std::min(part, problem_.columns - first));
      };
    });
    const order::FpEnvGuard guard;
    for (std::int64_t row = 0; row < problem_.rows; ++row) {
      order::TreeSum<Real> tree;
      for (std::int64_t i = 0; i < parts; ++i) tree.add(partial[row * parts + i]);
      store(row, tree.total());
    }
  }

 private:
  void whole_rows(const core::Executor& executor, int threads) const {
    // Short rows are handed out several at a time.
    const std::int64_t run = std::clamp<std::int64_t>(kSerialElements / (problem_.columns + 1), 1, 1024);
    run_workers(executor, (problem_.rows + run - 1) / run, threads, nullptr, 0, [&](std::byte*) {
      return [&](std::int64_t item) {
        for (std::int64_t row = item * run; row < std::min((item + 1) * run, problem_.rows); ++row)
          store(row, problem_.columns == 0 ? Real(0) : sum_(problem_.values.at<Real>(row), problem_.columns));
      };
    });
  }

  void store(std::int64_t row, Real sum) const {
    *problem_.sums.at<Real>(row) = order::is_nan(sum) ? order::canonical_nan<Real>() : sum;
  }

  const core::RowSumProblem& problem_;
  typename RowPrimitiveKernels<Row>::Sum sum_;
};

}  // namespace

void probability(const core::LogpProblem& problem, const core::Executor& executor, Isa isa) {
  if (problem.binary64)
    Probability<order::Row64V1>(problem, isa).run(executor);
  else
    Probability<order::RowV1>(problem, isa).run(executor);
}

void row_sum(const core::RowSumProblem& problem, const core::Executor& executor, Isa isa) {
  if (problem.dtype == DType::kFloat64)
    RowSum<order::Row64V1>(problem, isa).run(executor);
  else
    RowSum<order::RowV1>(problem, isa).run(executor);
}

std::size_t row_sum_scratch_bytes(const core::RowSumProblem& problem, int threads) {
  const std::int64_t part = part_columns(problem, threads_for(problem.rows, problem.columns, threads));
  const std::int64_t parts = (problem.columns + part - 1) / part;
  return parts <= 1 ? 0 : static_cast<std::size_t>(problem.rows * parts * dtype_size(problem.dtype));
}

}  // namespace samebits::cpu
