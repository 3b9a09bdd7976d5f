// What the parts of a linear_logp gradient share: the form of a contract, how a call is cut up, its workspace.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "cpu/head_rows.h"
#include "cpu/p_form_kernels.h"
#include "cpu/tc16_tile.h"
#include "cpu/workers.h"

namespace samebits::cpu {

// What a contract computes with: the product's worker, the row contract, how P and X are held.
template <class WorkerType, class RowType, class StoredType>
struct Form {
  using Worker = WorkerType;
  using Row = RowType;
  using Real = typename Row::Real;
  using Stored = StoredType;
  static constexpr bool kP = sizeof(Real) == 4;       // the P form; else unfused
  static constexpr bool kHalf = sizeof(Stored) == 2;  // P and X are rounded to 16 bits
  static constexpr DType kStored = std::is_same_v<Stored, order::BFloat16>  ? DType::kBFloat16
                                   : std::is_same_v<Stored, order::Float16> ? DType::kFloat16
                                   : sizeof(Stored) == 4                    ? DType::kFloat32
                                                                            : DType::kFloat64;
  static constexpr order::Reference kReference = kStored == DType::kBFloat16  ? order::Reference::kTarget
                                                 : kStored == DType::kFloat16 ? order::Reference::kShifted
                                                                              : order::Reference::kMax;
  static constexpr std::int64_t kBiasSegment = kP ? order::kOccurrences : order::kSegment;
};

// The tile of a target's logit alone.
inline constexpr TileShape kOneElement{1, 1};

// How a call is cut up. Segments of grad_hidden and of grad_weight are the contract's; the rest is free.
template <class F>
struct Split {
  std::int64_t rows, columns;        // of P held at a time
  TileShape logits, hidden, weight;  // tiles of the three products
  int workers;
  std::size_t worker_bytes;

  Split(const core::LinearLogpGradient& problem, int threads) {
    constexpr double kWorkOfOneThread = 1
                                        << 17;  // multiply-adds; below it a thread costs more than it brings
    const std::int64_t vocab = problem.head.logp.vocab, size = problem.head.hidden_size;
    const std::int64_t all = std::max<std::int64_t>(problem.head.logp.rows, 1);
    rows = std::min(all, problem.grad_weight != nullptr ? order::kSegment : std::int64_t{1024});
    columns = std::min(vocab, problem.grad_hidden ? order::kSegment : std::int64_t{1024});
    if (F::kP && problem.grad_hidden) columns = std::min(columns, order::slice_columns(vocab));
    const double work = double(rows) * double(columns) * double(size);
    workers = static_cast<int>(std::clamp(work / kWorkOfOneThread, 1.0, double(std::max(threads, 1))));
    logits = choose_tile(rows, columns, workers, 32);
    hidden = choose_tile(rows, size, workers, 32);
    weight = choose_tile(columns, size, workers, 32);
    worker_bytes = std::max(most_bytes(logits, size, size), most_bytes(kOneElement, size, size));
    if (problem.grad_hidden) worker_bytes = std::max(worker_bytes, most_bytes(hidden, 1, columns));
    if (problem.grad_weight != nullptr) worker_bytes = std::max(worker_bytes, most_bytes(weight, 1, rows));
  }

  // The most scratch that a depth within the bounds takes.
  static std::size_t most_bytes(const TileShape& shape, std::int64_t least, std::int64_t most) {
    std::size_t bytes = 0;
    for (std::int64_t depth = least; depth < most + 64; depth += 64)
      bytes = std::max(bytes, F::Worker::scratch_bytes(shape, std::min(depth, most)));
    return bytes;
  }
};

// The workspace.
template <class F>
struct Buffers {
  using Real = typename F::Real;
  HeadRow<typename F::Row>* rows = nullptr;  // [T]
  std::int64_t* by_target = nullptr;         // [T]
  typename F::Stored* p = nullptr;           // [split.rows, p_stride]
  std::int64_t p_stride = 0;
  typename F::Stored* x = nullptr;  // [split.rows, H]: X, in binary64 hidden itself
  std::uint64_t* counts = nullptr;  // [T, H]: N; in binary64 the sum so far
  Real* weight_sum = nullptr;       // [split.columns, H] of the segments of rows before the last
  Real *bias_acc = nullptr, *bias_total = nullptr;  // [split.columns]
  std::byte* workers = nullptr;
  std::size_t bytes = 0;

  // Lays the arrays out from `base`, which is aligned to 64; null only measures.
  Buffers(const core::LinearLogpGradient& problem, const Split<F>& split, std::byte* base) {
    const std::int64_t all = problem.head.logp.rows, size = problem.head.hidden_size;
    const auto take = [&]<class T>(T*& array, std::int64_t count) {
      if (base != nullptr) array = reinterpret_cast<T*>(base + bytes);
      bytes += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    };
    take(rows, all);
    take(by_target, all);
    // A whole number of cache lines and one more, so that neighbouring rows do not fall into the same cache set.
    p_stride = (split.columns + 31) / 32 * 32 + 32;
    take(p, split.rows * p_stride);
    if (problem.grad_weight != nullptr) take(x, split.rows * size);
    if (problem.grad_hidden) take(counts, all * size);
    if (problem.grad_weight != nullptr && all > split.rows) take(weight_sum, split.columns * size);
    if (problem.grad_bias != nullptr) {
      take(bias_acc, split.columns);
      take(bias_total, split.columns);
    }
    take(workers, static_cast<std::int64_t>(split.workers * split.worker_bytes));
  }
};

// Elements that are finished at a time; no less than a tile is wide.
inline constexpr std::int64_t kRun = kTileColumns;

// Kernels of the row contract.
template <class Row>
const RowKernels<Row>& row_kernels_of(Isa isa) {
  if constexpr (sizeof(typename Row::Real) == 4)
    return *row_kernels(isa);
  else
    return *row64_kernels(isa);
}

// One call, as its parts see it.
template <class F>
struct HeadCall {
  using Row = typename F::Row;
  using Worker = typename F::Worker;

  const core::LinearLogpGradient& problem;
  const core::Executor& executor;
  const typename Worker::Kernels product;
  const RowKernels<Row>& row_kernels;
  const PFormKernels& p_form;
  const Split<F> split;
  const Buffers<F> at;
  std::int64_t count = 0;  // rows that take part

  HeadCall(const core::LinearLogpGradient& gradient, const core::Executor& run_by,
           const typename Worker::Kernels& product_kernels, const RowKernels<Row>& row, const PFormKernels& p)
      : problem(gradient),
        executor(run_by),
        product(product_kernels),
        row_kernels(row),
        p_form(p),
        split(gradient, run_by.threads),
        at(gradient, split, run_by.workspace.data()) {}

  DType dtype() const { return problem.head.hidden.dtype; }
  std::int64_t size() const { return problem.head.hidden_size; }
  std::int64_t vocab() const { return problem.head.logp.vocab; }

  // Items spread over the workers, each with its scratch.
  template <class Make>
  void parallel(std::int64_t items, Make&& make_worker) const {
    run_workers(executor, items, split.workers, at.workers, split.worker_bytes, make_worker);
  }
  // `body(first, last)` on runs of `run` of `total`.
  template <class Body>
  void parallel_runs(std::int64_t total, std::int64_t run, Body&& body) const {
    parallel((total + run - 1) / run, [&](std::byte*) {
      return [&](std::int64_t item) { body(item * run, std::min(total, (item + 1) * run)); };
    });
  }

  // `body(row, rows, column, columns, tile)` for every tile of a product of `rows` by `columns`. Row r of A is at
  // a_row(r).
  template <class ARow, class Body>
  void tiles(const TileOperands& operands, const TileShape& shape, std::int64_t rows, std::int64_t columns,
             ARow&& a_row, Body&& body) const {
    const std::int64_t row_blocks = shape.row_blocks(rows);
    parallel(row_blocks * shape.column_blocks(columns), [&](std::byte* scratch) {
      return [&, worker = Worker(product, operands, shape, scratch)](std::int64_t item) mutable {
        // Neighbouring items share the columns, so that B comes from the cache for all but one.
        const std::int64_t row = item % row_blocks * shape.rows, column = item / row_blocks * shape.columns;
        const std::int64_t height = std::min(shape.rows, rows - row);
        const std::int64_t width = std::min(shape.columns, columns - column);
        std::array<const void*, kTileRows> a_rows = {};
        for (std::int64_t r = 0; r < height; ++r) a_rows[static_cast<std::size_t>(r)] = a_row(row + r);
        body(row, height, column, width, worker.compute(a_rows.data(), height, column, width));
      };
    });
  }
};

}  // namespace samebits::cpu
