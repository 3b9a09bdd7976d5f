#include "cpu/matmul.h"

#include <array>

#include "cpu/tc16_tile.h"
#include "cpu/workers.h"
#include "order/number.h"

namespace samebits::cpu {
namespace {

struct Split {
  TileShape shape;
  int workers = 1;
};

Split choose_split(const core::MatmulProblem& problem, int threads) {
  constexpr double kWorkOfOneThread = 1 << 17;  // multiply-adds; below it a thread costs more than it brings
  const double work =
      double(problem.rows) * double(problem.columns) * double(std::max<std::int64_t>(problem.depth, 1));
  Split split;
  split.workers = static_cast<int>(std::clamp(work / kWorkOfOneThread, 1.0, double(std::max(threads, 1))));
  split.shape = choose_tile(problem.rows, problem.columns, split.workers, 32);
  return split;
}

template <class Out, class Real>
void store_tile(const core::MatmulProblem& problem, const Tile<Real>& tile, std::int64_t row,
                std::int64_t rows, std::int64_t column, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Real* source = tile.data + r * tile.stride;
    Out* out = static_cast<Out*>(problem.out) + (row + r) * problem.out_row_stride + column;
    for (std::int64_t c = 0; c < columns; ++c) out[c] = order::round_to<Out>(source[c]);
  }
}

template <class In, class Real>
void add_bias_of(const core::MatmulProblem& problem, const Tile<Real>& tile, std::int64_t rows,
                 std::int64_t column, std::int64_t columns) {
  const In* bias = static_cast<const In*>(problem.bias) + column * problem.bias_stride;
  for (std::int64_t r = 0; r < rows; ++r) {
    Real* x = tile.data + r * tile.stride;
    for (std::int64_t c = 0; c < columns; ++c)
      x[c] = x[c] + order::widen<Real>(bias[c * problem.bias_stride]);
  }
}

template <class Real>
void add_bias(const core::MatmulProblem& problem, const Tile<Real>& tile, std::int64_t rows,
              std::int64_t column, std::int64_t columns) {
  if constexpr (sizeof(Real) == 8) {
    add_bias_of<double>(problem, tile, rows, column, columns);
  } else {
    switch (problem.dtype) {
      case DType::kFloat16: return add_bias_of<order::Float16>(problem, tile, rows, column, columns);
      case DType::kBFloat16: return add_bias_of<order::BFloat16>(problem, tile, rows, column, columns);
      default: return add_bias_of<float>(problem, tile, rows, column, columns);
    }
  }
}

template <class Worker>
void run(const core::MatmulProblem& problem, const core::Executor& executor,
         const typename Worker::Kernels& kernels) {
  using Real = typename Worker::Real;
  const Split split = choose_split(problem, executor.threads);
  const TileShape& shape = split.shape;
  const TileOperands operands{problem.dtype,  problem.depth,        problem.a.column_stride,
                              problem.b.data, problem.b.row_stride, problem.b.column_stride};
  const std::int64_t column_blocks = shape.column_blocks(problem.columns);
  const std::int64_t items = shape.row_blocks(problem.rows) * column_blocks;
  const std::size_t slice = Worker::scratch_bytes(shape, problem.depth);
  run_workers(executor, items, split.workers, executor.workspace.data(), slice, [&](std::byte* scratch) {
    return [&, worker = Worker(kernels, operands, shape, scratch)](std::int64_t item) mutable {
      const std::int64_t row = item / column_blocks * shape.rows;
      const std::int64_t column = item % column_blocks * shape.columns;
      const std::int64_t rows = std::min(shape.rows, problem.rows - row);
      const std::int64_t columns = std::min(shape.columns, problem.columns - column);
      std::array<const void*, kTileRows> a_rows = {};
      for (std::int64_t r = 0; r < rows; ++r)
        a_rows[r] = static_cast<const std::byte*>(problem.a.data) +
                    (row + r) * problem.a.row_stride * dtype_size(problem.dtype);
      const Tile<Real> tile = worker.compute(a_rows.data(), rows, column, columns);
      if (problem.bias != nullptr) add_bias<Real>(problem, tile, rows, column, columns);
      if constexpr (sizeof(Real) == 8) {
        store_tile<double>(problem, tile, row, rows, column, columns);
      } else {
        switch (problem.out_dtype) {
          case DType::kFloat16: return store_tile<order::Float16>(problem, tile, row, rows, column, columns);
          case DType::kBFloat16:
            return store_tile<order::BFloat16>(problem, tile, row, rows, column, columns);
          default: return store_tile<float>(problem, tile, row, rows, column, columns);
        }
      }
    };
  });
}

}  // namespace

void matmul(const core::MatmulProblem& problem, const core::Executor& executor, const MatmulKernels& kernels,
            const Tc16Kernels& tc16) {
  if (problem.rows == 0 || problem.columns == 0) return;
  if (problem.tc16)
    run<Tc16TileWorker>(problem, executor, {tc16, kernels.f32});
  else if (problem.dtype == DType::kFloat64)
    run<TileWorker<double>>(problem, executor, kernels.f64);
  else
    run<TileWorker<float>>(problem, executor, kernels.f32);
}

std::size_t matmul_scratch_bytes(const core::MatmulProblem& problem, int threads) {
  if (problem.rows == 0 || problem.columns == 0) return 0;
  const Split split = choose_split(problem, threads);
  const auto slice = [&] {
    if (problem.tc16) return Tc16TileWorker::scratch_bytes(split.shape, problem.depth);
    if (problem.dtype == DType::kFloat64)
      return TileWorker<double>::scratch_bytes(split.shape, problem.depth);
    return TileWorker<float>::scratch_bytes(split.shape, problem.depth);
  };
  return split.workers * slice();
}

}  // namespace samebits::cpu
