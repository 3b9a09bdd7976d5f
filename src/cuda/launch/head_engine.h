// The products of a linear log-probability on a GPU, as its driver sees them. An engine is one way to compute them under
// the call's contract; no choice of engine can change a bit.
//
// Rows that take part are known by their position, 0 to *count - 1, in ascending order of rows. Only the device knows
// `count`: launches are sized for `capacity`, and kernels leave out positions from *count on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device_backend.h"
#include "core/matmul_problem.h"
#include "order/dot.h"

namespace samebits::cuda {

// What an engine may be asked of; arrays live on the device.
struct HeadShape {
  DType dtype = DType::kBFloat16;  // of hidden, weight and bias; the stored type of P and X
  bool tc16 = true, binary64 = false;
  std::int64_t vocab = 0, hidden_size = 0;  // V, H
  core::Operand weight = {};                // (v, k), any strides
  const void* bias = nullptr;               // [V] or null
  std::int64_t bias_stride = 1;
};

inline HeadShape shape_of(const core::LinearLogpProblem& head) {
  return {head.hidden.dtype, head.tc16,   head.logp.binary64, head.logp.vocab,
          head.hidden_size,  head.weight, head.bias,          head.bias_stride};
}

// Rows at positions [first, first + rows), without those from *count on.
struct PositionRange {
  std::int64_t first = 0, rows = 0;
  const std::int32_t* count = nullptr;
};

// hidden of a range, gathered: element (i, k) of position first + i at data[i * stride + k]. 256-byte aligned; stride
// is H rounded up to 8 elements. Rows that do not take part hold finite numbers or nothing defined.
struct GatheredRows {
  const void* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t room = 0;  // rows that may be read, whatever they hold
};

// Room for `rows` gathered rows, of which an engine may read whole tiles.
constexpr std::int64_t gathered_room(std::int64_t rows) { return rows < 128 ? 128 : rows; }

// Block statistics of row.v1 over all columns, and the target's logit x (with bias, without temperature). Under
// fma64.v1, here and below, what is float is double. An engine that says so (saves_p) writes P on its way: RN16(e0(z -
// reference)), +0 in the target's column and in rows of a tile's end that do not take part. Rows whose reference turns
// out to be another one, or whose maximum is not finite, hold anything: they are written again.
struct StatsTask {
  PositionRange range;
  GatheredRows hidden;
  const float* inverse_tau = nullptr;    // [capacity] by position; null: 1 everywhere
  const std::int64_t* target = nullptr;  // [capacity] by position, 0 <= id < V
  float* max = nullptr;                  // m of block b, position first + i at [b * range.rows + i]
  float* sum = nullptr;                  // s, alike
  float* entropy_sum = nullptr;          // u, alike, or null
  float* target_logit = nullptr;         // [capacity] by position
  const float* reference = nullptr;      // [capacity] by position; where P is written
  void* p = nullptr;                     // of position first + i at row i; 128-byte aligned rows
  std::int64_t p_stride = 0;             // a multiple of 64 elements
  // Of the range, from its first on, that P is written of: a multiple of 128, or all.
  std::int64_t p_rows = 0;
};

// P of the columns [column, column + columns): row i is position first + i, dense along columns, +0 in rows that do not
// take part, up to the next multiple of 64 rows or the end of the range. With `to`, which only an engine that saves P is
// given, row to[i] is position first + i, and no row is written for positions that do not take part.
struct PTask {
  PositionRange range;
  GatheredRows hidden;
  std::int64_t column = 0, columns = 0;
  const float* inverse_tau = nullptr;
  const std::int64_t* target = nullptr;
  const void* rows = nullptr;  // order::PRow by position; HeadRow64 under fma64.v1, where P is the gradient
  bool sloped = true;          // rows may have an entropy gradient
  void* p = nullptr;
  std::int64_t p_stride = 0;         // a multiple of 64 elements; 128-byte aligned rows
  const std::int32_t* to = nullptr;  // [range.rows]: rows of p, all of them different; null: row i is i
};

// A segment of the vocabulary, or another part of a sum: [first, first + columns).
struct Segment {
  std::int32_t first, columns;
};

// counts[position, k] += llrint(D * 2^w) for D = P x weight over each of the segments. Under fma64.v1 counts are doubles
// to which the D are added, ascending. With `sums`, which only an engine that holds them is given, each D is kept as it
// is, for w is not known yet: it takes the largest |weight|, which is found on the way.
struct HiddenTask {
  PositionRange range;
  std::int64_t column = 0, columns = 0;
  std::span<const Segment> segments = {};  // whole ones, which make up the columns; counted from `column`
  const void* p = nullptr;
  std::int64_t p_stride = 0;
  const std::int32_t* exponent = nullptr;  // w by position
  std::int32_t* nan_row = nullptr;         // set to 1 by position where a D is not finite
  std::int64_t* counts = nullptr;          // [capacity, H]
  float* sums = nullptr;                   // D of each segment, at [segment * sums_stride + position * H + k]
  std::int64_t sums_stride = 0;
  std::uint32_t* largest = nullptr;  // beside sums: raised to the bits of the largest |weight| of the columns
};

// total[v - column, k] = (first segment ? +0 : total) + (transpose(P) x X) over the range, which is one whole segment
// of positions (or the rest of them), or all of them where the engine takes so many. Ranges wholly beyond *count change
// nothing, but the first one writes +0.
struct WeightTask {
  PositionRange range;
  std::int64_t column = 0, columns = 0;
  const void* p = nullptr;
  std::int64_t p_stride = 0;
  const void* x = nullptr;    // row i is position first + i; +0 in rows that do not take part, as far as P's
  std::int64_t x_stride = 0;  // H rounded up to 8 elements
  float* total = nullptr;     // [columns, H]; of a task that is first and last, finish_elements of the engine
  // The kernel ahead is that of add_hidden, of the same P: they may run side by side.
  bool beside_hidden = false;
  const struct WeightFinish* finish = nullptr;  // with the last range, where the engine finishes
};

class HeadEngine {
 public:
  virtual ~HeadEngine() = default;
  virtual const char* name() const = 0;
  // Device memory that the engine takes for ranges of at most `rows` positions; it gets it before the first task.
  virtual std::size_t scratch_bytes([[maybe_unused]] std::int64_t rows) const { return 0; }
  virtual void use_scratch(void* memory) { (void)memory; }
  // Whether add_hidden knows HiddenTask::sums.
  virtual bool holds_sums() const { return false; }
  // Whether add_weight writes grad_weight itself when it is told how to finish.
  virtual bool finishes_weight() const { return false; }
  // Positions that add_weight takes at most where a task has all of them.
  virtual std::int64_t most_positions_of_weight() const { return order::kSegment; }
  // Elements of WeightTask::total that it takes for that, where a task has all `rows`.
  virtual std::int64_t finish_elements(std::int64_t /*rows*/, std::int64_t /*columns*/) const { return 0; }
  // Whether block_stats writes P where it is asked to, and fill_p knows PTask::to.
  virtual bool saves_p() const { return false; }
  virtual void block_stats(const StatsTask& task, const core::DeviceCall& call) = 0;
  virtual void fill_p(const PTask& task, const core::DeviceCall& call) = 0;
  virtual void add_hidden(const HiddenTask& task, const core::DeviceCall& call) = 0;
  virtual void add_weight(const WeightTask& task, const core::DeviceCall& call) = 0;
  // Whether the last kernel of add_weight, just called, lets others start, and waited itself for all that came before.
  virtual bool ends_small() const { return false; }
};

}  // namespace samebits::cuda
