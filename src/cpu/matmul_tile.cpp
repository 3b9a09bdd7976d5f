#include "cpu/matmul_tile.h"

#include <cstring>

#include "order/number.h"

namespace samebits::cpu {
namespace {

constexpr std::int64_t kAlignBytes = 64;

template <class Real>
constexpr std::int64_t kMaxPanel = 128 / static_cast<std::int64_t>(sizeof(Real));

template <class Real, class In>
void widen_run(const In* source, std::int64_t stride, std::int64_t count, Real* out) {
  if constexpr (std::is_same_v<Real, In>) {
    if (stride == 1) {
      std::memcpy(out, source, static_cast<std::size_t>(count) * sizeof(Real));
      return;
    }
  }
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = order::widen<Real>(source[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = order::widen<Real>(source[i * stride]);
  }
}

// out[i] = element `offset + i * stride` of `data`, exactly.
template <class Real>
void load_run(DType dtype, const void* data, std::int64_t offset, std::int64_t stride, std::int64_t count,
              Real* out) {
  if constexpr (sizeof(Real) == 8) {
    widen_run(static_cast<const double*>(data) + offset, stride, count, out);
  } else {
    switch (dtype) {
      case DType::kFloat16:
        return widen_run(static_cast<const order::Float16*>(data) + offset, stride, count, out);
      case DType::kBFloat16:
        return widen_run(static_cast<const order::BFloat16*>(data) + offset, stride, count, out);
      default: return widen_run(static_cast<const float*>(data) + offset, stride, count, out);
    }
  }
}

}  // namespace

template <class Real>
TileWorker<Real>::Layout::Layout(const TileShape& shape, std::int64_t depth) {
  constexpr std::int64_t kUnit = kAlignBytes / sizeof(Real);
  const auto up = [](std::int64_t count) { return (count + kUnit - 1) / kUnit * kUnit; };
  // Few rows: all chunks of a segment of A stay packed, so that B is read along K, which memory likes best.
  const std::int64_t segment = std::min(depth, order::kSegment);
  const std::int64_t chunks = std::max<std::int64_t>(1, (segment + kChunk<Real> - 1) / kChunk<Real>);
  chunks_of_a = shape.rows * chunks <= kTileRows ? chunks : 1;
  acc_stride = up(shape.columns + kMaxPanel<Real>) + kUnit;
  a = 0;
  panel = up(a + chunks_of_a * shape.rows * kPackedStride<Real>);
  staging = up(panel + kMaxPanel<Real> * kChunk<Real>);
  acc = up(staging + kMaxPanel<Real> * kPackedStride<Real>);
  total_of_segments = up(acc + shape.rows * acc_stride);
  total = depth > order::kSegment ? up(total_of_segments + shape.rows * acc_stride) : total_of_segments;
}

template <class Real>
TileWorker<Real>::TileWorker(const DotKernels<Real>& kernels, const TileOperands& operands,
                             const TileShape& shape, std::byte* scratch)
    : kernels_(kernels),
      operands_(operands),
      layout_(shape, operands.depth),
      copies_runs_(shape.rows >= 8 && operands.b_column_stride * std::int64_t{sizeof(Real)} % 2048 == 0),
      scratch_(reinterpret_cast<Real*>(scratch)) {}

template <class Real>
void TileWorker<Real>::pack_a(const void* const* a_rows, std::int64_t rows, std::int64_t k,
                              std::int64_t depth, Real* packed) {
  constexpr DType kReal = sizeof(Real) == 4 ? DType::kFloat32 : DType::kFloat64;
  const DType dtype = operands_.real_a ? kReal : operands_.dtype;
  for (std::int64_t r = 0; r < rows; ++r)
    load_run(dtype, a_rows[r], k * operands_.a_stride, operands_.a_stride, depth,
             packed + r * kPackedStride<Real>);
}

template <class Real>
void TileWorker<Real>::pack_panel(std::int64_t column, std::int64_t columns, std::int64_t k,
                                  std::int64_t depth) {
  const std::int64_t panel = kernels_.panel_columns;
  const std::int64_t along_k = operands_.b_depth_stride, across = operands_.b_column_stride;
  const std::int64_t offset = k * along_k + column * across;
  Real* packed = scratch_ + layout_.panel;
  if (dense_along_k() && columns == panel && !copies_runs_) {
    kernels_.transpose(static_cast<const Real*>(operands_.b) + offset, across, depth, packed);
    return;
  }
  if (std::abs(across) <= std::abs(along_k)) {
    for (std::int64_t i = 0; i < depth; ++i) {
      load_run(operands_.dtype, operands_.b, offset + i * along_k, across, columns, packed + i * panel);
      std::fill(packed + i * panel + columns, packed + (i + 1) * panel, Real(0));
    }
    return;
  }
  Real* staging = scratch_ + layout_.staging;
  for (std::int64_t c = 0; c < panel; ++c) {
    Real* run = staging + c * kPackedStride<Real>;
    if (c < columns)
      load_run(operands_.dtype, operands_.b, offset + c * across, along_k, depth, run);
    else
      std::fill(run, run + depth, Real(0));
  }
  kernels_.transpose(staging, kPackedStride<Real>, depth, packed);
}

template <class Real>
void TileWorker<Real>::multiply(std::int64_t depth, const Real* a, std::int64_t rows, Real* acc, bool first,
                                std::int64_t next_column, std::int64_t next_k) {
  const Real* panel = scratch_ + layout_.panel;
  // The first rows fetch what is packed next; the others fetch what is there already.
  const Real* ahead = panel;
  std::int64_t ahead_stride = 0;
  if (dense_along_k() && next_k < operands_.depth) {
    ahead_stride = operands_.b_column_stride;
    ahead = static_cast<const Real*>(operands_.b) + next_column * ahead_stride + next_k;
  }
  for (std::int64_t r = 0; r < rows; r += kernels_.tile_rows) {
    const std::int64_t count = std::min<std::int64_t>(kernels_.tile_rows, rows - r);
    kernels_.tile[count](depth, a + r * kPackedStride<Real>, panel, kernels_.panel_columns,
                         acc + r * layout_.acc_stride, layout_.acc_stride, first, ahead, ahead_stride);
    ahead = panel;
    ahead_stride = 0;
  }
}

template <class Real>
void TileWorker<Real>::multiply_in_place(std::int64_t column, std::int64_t columns, std::int64_t k,
                                         std::int64_t depth, const Real* a, std::int64_t rows, Real* acc,
                                         bool first) {
  constexpr std::int64_t kSteps = 16;  // rows of B that are read side by side
  const std::int64_t panel = kernels_.panel_columns, along_k = operands_.b_depth_stride;
  const Real* b = static_cast<const Real*>(operands_.b) + k * along_k + column;
  const std::int64_t whole = columns / panel * panel;
  for (std::int64_t i = 0; i < depth; i += kSteps)
    for (std::int64_t c = 0; c < whole; c += panel)
      kernels_.tile[rows](std::min(kSteps, depth - i), a + i, b + i * along_k + c, along_k, acc + c,
                          layout_.acc_stride, first && i == 0, a, 0);
  if (whole == columns) return;
  pack_panel(column + whole, columns - whole, k, depth);
  multiply(depth, a, rows, acc + whole, first, 0, operands_.depth);
}

template <class Real>
Tile<Real> TileWorker<Real>::compute(const void* const* a_rows, std::int64_t rows, std::int64_t column,
                                     std::int64_t columns) {
  const std::int64_t panel = kernels_.panel_columns;
  const std::int64_t stride = layout_.acc_stride;
  Real* const a = scratch_ + layout_.a;
  Real* const acc = scratch_ + layout_.acc;
  const bool one_segment = operands_.depth <= order::kSegment;
  Real* const total = one_segment ? acc : scratch_ + layout_.total_of_segments;
  if (operands_.depth == 0) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill(acc + r * stride, acc + r * stride + columns, Real(0));
    return {acc, stride};
  }
  for (std::int64_t begin = 0; begin < operands_.depth; begin += order::kSegment) {
    const std::int64_t end = std::min(begin + order::kSegment, operands_.depth);
    // Chunks of A outside, as many at a time as stay packed; then panels of B; then the chunks of each.
    const std::int64_t step = layout_.chunks_of_a * kChunk<Real>;
    for (std::int64_t outer = begin; outer < end; outer += step) {
      const std::int64_t outer_end = std::min(outer + step, end);
      for (std::int64_t k = outer; k < outer_end; k += kChunk<Real>)
        pack_a(a_rows, rows, k, std::min(kChunk<Real>, outer_end - k),
               a + (k - outer) / kChunk<Real> * rows * kPackedStride<Real>);
      const auto chunk_of_a = [&](std::int64_t k) {
        return a + (k - outer) / kChunk<Real> * rows * kPackedStride<Real>;
      };
      if (rows <= kernels_.tile_rows && dense_across()) {
        for (std::int64_t k = outer; k < outer_end; k += kChunk<Real>)
          multiply_in_place(column, columns, k, std::min(kChunk<Real>, outer_end - k), chunk_of_a(k), rows,
                            acc, k == begin);
        continue;
      }
      for (std::int64_t c = 0; c < columns; c += panel) {
        for (std::int64_t k = outer; k < outer_end; k += kChunk<Real>) {
          const std::int64_t depth = std::min(kChunk<Real>, outer_end - k);
          const bool last_chunk = k + depth == outer_end, last_panel = c + panel >= columns;
          pack_panel(column + c, std::min(panel, columns - c), k, depth);
          multiply(depth, chunk_of_a(k), rows, acc + c, k == begin,
                   column + (!last_chunk  ? c
                             : last_panel ? 0
                                          : c + panel),
                   !last_chunk  ? k + depth
                   : last_panel ? outer_end
                                : outer);
        }
      }
    }
    // Segment results add up from +0; alone, this still turns -0 into +0.
    for (std::int64_t r = 0; r < rows; ++r) {
      const Real* segment = acc + r * stride;
      Real* sum = total + r * stride;
      if (begin == 0)
        for (std::int64_t c = 0; c < columns; ++c) sum[c] = Real(0) + segment[c];
      else
        for (std::int64_t c = 0; c < columns; ++c) sum[c] = sum[c] + segment[c];
    }
  }
  return {total, stride};
}

template class TileWorker<float>;
template class TileWorker<double>;

}  // namespace samebits::cpu
