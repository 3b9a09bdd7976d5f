#include "cpu/linear_logp.h"

#include <algorithm>

#include "cpu/logp_rows.h"
#include "cpu/number_runs.h"
#include "cpu/tc16_tile.h"
#include "cpu/workers.h"

namespace samebits::cpu {
namespace {

constexpr std::int64_t kStatsBytes = std::int64_t{16} << 20;  // of the block statistics of a chunk of rows
constexpr std::int64_t kMostRows = 4096;                      // of a chunk, however small the vocabulary is

// How a call is cut up; no bit depends on it.
struct Split {
  std::int64_t rows = 1;    // participating rows of a chunk
  std::int64_t blocks = 1;  // of a row
  TileShape shape;
  int workers = 1;
};

template <class Real>
Split choose_split(const core::LinearLogpProblem& problem, int threads) {
  constexpr double kWorkOfOneThread = 1 << 17;  // multiply-adds; below it a thread costs more than it brings
  Split split;
  split.blocks = order::block_count(problem.logp.vocab);
  const std::int64_t fitting = kStatsBytes / (3 * split.blocks * static_cast<std::int64_t>(sizeof(Real)));
  split.rows = std::clamp<std::int64_t>(fitting, 24, kMostRows);
  if (split.rows > kTileRows) split.rows -= split.rows % kTileRows;
  split.rows = std::max<std::int64_t>(1, std::min(split.rows, problem.logp.rows));
  const double work = double(split.rows) * double(problem.logp.vocab) *
                      double(std::max<std::int64_t>(problem.hidden_size, 1));
  split.workers = static_cast<int>(std::clamp(work / kWorkOfOneThread, 1.0, double(std::max(threads, 1))));
  split.shape = choose_tile(split.rows, problem.logp.vocab, split.workers, order::kBlock);
  return split;
}

// What is kept about a chunk of participating rows.
template <class Real>
struct Chunk {
  const void** hidden = nullptr;   // [rows]
  std::int64_t* row = nullptr;     // [rows] number of the row in the problem
  std::int64_t* target = nullptr;  // [rows]
  Real* inverse_tau = nullptr;     // [rows]
  Real* z_target = nullptr;        // [rows]
  Real* m = nullptr;               // [rows, blocks]
  Real* s = nullptr;               // [rows, blocks]
  Real* u = nullptr;               // [rows, blocks], null unless entropy is wanted
  std::size_t bytes = 0;           // of all of these

  // Lays the arrays out from `base`, which is aligned to 64; null only measures.
  Chunk(const Split& split, bool entropy, std::byte* base) {
    const auto take = [&]<class T>(T*& array, std::int64_t count) {
      if (base != nullptr) array = reinterpret_cast<T*>(base + bytes);
      bytes += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    };
    take(hidden, split.rows);
    take(row, split.rows);
    take(target, split.rows);
    take(inverse_tau, split.rows);
    take(z_target, split.rows);
    take(m, split.rows * split.blocks);
    take(s, split.rows * split.blocks);
    if (entropy) take(u, split.rows * split.blocks);
  }
};

template <class Row, class Worker>
class Forward {
 public:
  using Real = typename Row::Real;

  Forward(const core::LinearLogpProblem& problem, const core::Executor& executor,
          const typename Worker::Kernels& dot, const RowKernels<Row>& kernels)
      : problem_(problem),
        executor_(executor),
        dot_(dot),
        kernels_(kernels),
        split_(choose_split<Real>(problem, executor.threads)),
        chunk_(split_, problem.logp.wants_entropy(), executor.workspace.data()),
        operands_{problem.hidden.dtype, problem.hidden_size,          problem.hidden_stride,
                  problem.weight.data,  problem.weight.column_stride, problem.weight.row_stride} {}

  void run() {
    const order::FpEnvGuard guard;
    std::int64_t next = 0;
    while (next < problem_.logp.rows) {
      const std::int64_t count = gather(next);
      if (count == 0) continue;
      statistics(count);
      finish(count);
    }
  }

 private:
  // Fills the chunk with participating rows from `next` on; settles the rows in between that take no part.
  std::int64_t gather(std::int64_t& next) {
    const core::LogpProblem& logp = problem_.logp;
    std::int64_t count = 0;
    for (; next < logp.rows && count < split_.rows; ++next) {
      const std::int64_t id = logp.target(next);
      const core::RowKind kind = logp.kind(next, id);
      if (kind != core::RowKind::kLive) {
        write_other_row<Row>(logp, next, kind);
        continue;
      }
      chunk_.hidden[count] = static_cast<const std::byte*>(problem_.hidden.data) +
                             problem_.hidden.index.offset(next) * dtype_size(problem_.hidden.dtype);
      chunk_.row[count] = next;
      chunk_.target[count] = id;
      chunk_.inverse_tau[count] = order::inverse_temperature<Row>(logp.tau(next));
      ++count;
    }
    return count;
  }

  // m_b, s_b, u_b and the target's logit of every row of the chunk, tile by tile.
  void statistics(std::int64_t count) {
    const TileShape& shape = split_.shape;
    const std::int64_t column_blocks = shape.column_blocks(problem_.logp.vocab);
    const std::size_t slice = Worker::scratch_bytes(shape, problem_.hidden_size);
    run_workers(executor_, shape.row_blocks(count) * column_blocks, split_.workers,
                executor_.workspace.data() + chunk_.bytes, slice, [&](std::byte* scratch) {
                  return [&, worker = Worker(dot_, operands_, shape, scratch)](std::int64_t item) mutable {
                    // Neighbouring items share the columns, so that weight comes from the cache for all but one.
                    const std::int64_t row_blocks = shape.row_blocks(count);
                    tile_statistics(worker, item % row_blocks * shape.rows, item / row_blocks * shape.columns,
                                    count);
                  };
                });
  }

  void tile_statistics(Worker& worker, std::int64_t row, std::int64_t column, std::int64_t count) {
    const std::int64_t rows = std::min(split_.shape.rows, count - row);
    const std::int64_t columns = std::min(split_.shape.columns, problem_.logp.vocab - column);
    const Tile<Real> tile = worker.compute(chunk_.hidden + row, rows, column, columns);
    const auto stats =
        kernels_.block_stats[static_cast<int>(sizeof(Real) == 4 ? DType::kFloat32 : DType::kFloat64)];
    for (std::int64_t r = 0; r < rows; ++r) {
      Real* x = tile.data + r * tile.stride;
      if (problem_.bias != nullptr)
        with_number_type<Real>(problem_.hidden.dtype, [&]<class In>(In) {
          const In* bias = static_cast<const In*>(problem_.bias) + column * problem_.bias_stride;
          for (std::int64_t c = 0; c < columns; ++c)
            x[c] = x[c] + order::widen<Real>(bias[c * problem_.bias_stride]);
        });
      const std::int64_t i = row + r;
      const Real inverse_tau = chunk_.inverse_tau[i];
      const std::int64_t target = chunk_.target[i] - column;
      if (target >= 0 && target < columns) chunk_.z_target[i] = x[target] * inverse_tau;
      const std::int64_t at = i * split_.blocks + column / order::kBlock;
      stats(x, columns, inverse_tau, chunk_.m + at, chunk_.s + at, chunk_.u ? chunk_.u + at : nullptr);
    }
  }

  void finish(std::int64_t count) {
    constexpr std::int64_t kRowsOfItem = 8;
    run_workers(executor_, (count + kRowsOfItem - 1) / kRowsOfItem, split_.workers, nullptr, 0,
                [&](std::byte*) {
                  return [&](std::int64_t item) {
                    const std::int64_t end = std::min(count, (item + 1) * kRowsOfItem);
                    for (std::int64_t i = item * kRowsOfItem; i < end; ++i) {
                      const std::int64_t at = i * split_.blocks;
                      const order::RowStats<Row> stats = kernels_.combine(
                          chunk_.m + at, chunk_.s + at, chunk_.u ? chunk_.u + at : nullptr, split_.blocks);
                      write_live_row<Row>(problem_.logp, chunk_.row[i], stats, chunk_.z_target[i]);
                    }
                  };
                });
  }

  const core::LinearLogpProblem& problem_;
  const core::Executor& executor_;
  const typename Worker::Kernels dot_;
  const RowKernels<Row>& kernels_;
  const Split split_;
  const Chunk<Real> chunk_;
  const TileOperands operands_;
};

template <class Worker>
std::size_t scratch_bytes(const core::LinearLogpProblem& problem, int threads) {
  const Split split = choose_split<typename Worker::Real>(problem, threads);
  const Chunk<typename Worker::Real> chunk(split, problem.logp.wants_entropy(), nullptr);
  return chunk.bytes + split.workers * Worker::scratch_bytes(split.shape, problem.hidden_size);
}

}  // namespace

void linear_logp_forward(const core::LinearLogpProblem& problem, const core::Executor& executor,
                         const LinearLogpKernels& kernels) {
  using order::RowV1, order::Row64V1;
  if (problem.tc16)
    Forward<RowV1, Tc16TileWorker>(problem, executor, {kernels.tc16, kernels.matmul.f32}, kernels.row).run();
  else if (problem.logp.binary64)
    Forward<Row64V1, TileWorker<double>>(problem, executor, kernels.matmul.f64, kernels.row64).run();
  else
    Forward<RowV1, TileWorker<float>>(problem, executor, kernels.matmul.f32, kernels.row).run();
}

std::size_t linear_logp_scratch_bytes(const core::LinearLogpProblem& problem, int threads) {
  if (problem.tc16) return scratch_bytes<Tc16TileWorker>(problem, threads);
  return problem.logp.binary64 ? scratch_bytes<TileWorker<double>>(problem, threads)
                               : scratch_bytes<TileWorker<float>>(problem, threads);
}

}  // namespace samebits::cpu
