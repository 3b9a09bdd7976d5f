#include "cpu/tc16_tile.h"

#include <cstring>

namespace samebits::cpu {
namespace {

constexpr std::int64_t kGroup = order::Tc16::kGroup;
constexpr std::int64_t kMaxPanel = 32;
constexpr std::int64_t kStagedRun = kTc16Chunk + 32;  // 16-bit elements; neighbouring runs share no cache set

std::int64_t whole_groups(std::int64_t depth) { return (depth + kGroup - 1) / kGroup * kGroup; }

// `count` elements, `stride` apart, then +0 up to `padded`.
void copy_run(const std::uint16_t* source, std::int64_t stride, std::int64_t count, std::int64_t padded,
              std::uint16_t* out) {
  if (stride == 1)
    std::memcpy(out, source, static_cast<std::size_t>(count) * sizeof *out);
  else
    for (std::int64_t i = 0; i < count; ++i) out[i] = source[i * stride];
  std::fill(out + count, out + padded, std::uint16_t{0});
}

}  // namespace

Tc16TileWorker::Layout::Layout(const TileShape& shape, std::int64_t depth) {
  const auto up = [](std::int64_t count) { return (count + 15) / 16 * 16; };
  // Few rows: all chunks of a segment of A stay unpacked, so that B is read along K, which memory likes best.
  const std::int64_t segment = std::min(depth, order::kSegment);
  const std::int64_t chunks = std::max<std::int64_t>(1, (segment + kTc16Chunk - 1) / kTc16Chunk);
  chunks_of_a = shape.rows * chunks <= kTileRows ? chunks : 1;
  acc_stride = up(shape.columns + kMaxPanel) + 16;
  a = 0;
  a_exponents = a + chunks_of_a * shape.rows * kTc16Stride;
  b = a_exponents + chunks_of_a * shape.rows * kTc16Stride;
  b_exponents = b + kTc16Chunk * kMaxPanel;
  words = b_exponents + kTc16Chunk * kMaxPanel / 2;
  staging = words + kTc16Chunk * kMaxPanel / 2;
  acc = staging + kStagedRun * kMaxPanel / 2;
  total_of_segments = acc + shape.rows * acc_stride;
  total = depth > order::kSegment ? total_of_segments + shape.rows * acc_stride : total_of_segments;
}

Tc16TileWorker::Tc16TileWorker(const Kernels& kernels, const TileOperands& operands, const TileShape& shape,
                               std::byte* scratch)
    : kernels_(kernels),
      operands_(operands),
      layout_(shape, operands.depth),
      format_(operands.dtype == DType::kFloat16 ? 1 : 0),
      scratch_(scratch) {}

void Tc16TileWorker::unpack_a(const void* const* a_rows, std::int64_t rows, std::int64_t k,
                              std::int64_t depth, std::int64_t slot) {
  const std::int64_t padded = whole_groups(depth);
  std::uint16_t run[kTc16Chunk];
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto* source = static_cast<const std::uint16_t*>(a_rows[r]) + k * operands_.a_stride;
    const std::int64_t at = slot + r * kTc16Stride;
    if (operands_.a_stride != 1 || padded != depth) {
      copy_run(source, operands_.a_stride, depth, padded, run);
      source = run;
    }
    kernels_.tc16.unpack_row[format_](source, padded, floats(layout_.a + at),
                                      words(layout_.a_exponents + at));
  }
}

void Tc16TileWorker::unpack_b(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth) {
  const std::int64_t panel = kernels_.tc16.panel_columns, pairs = whole_groups(depth) / 2;
  const std::int64_t along_k = operands_.b_depth_stride, across = operands_.b_column_stride;
  const auto* source = static_cast<const std::uint16_t*>(operands_.b) + k * along_k + column * across;
  std::uint32_t* const pair_words = words(layout_.words);
  if (std::abs(across) < std::abs(along_k)) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::uint16_t* even = source + 2 * i * along_k;
      std::uint32_t* row = pair_words + i * panel;
      std::fill(row, row + panel, 0u);
      if (2 * i < depth)
        for (std::int64_t c = 0; c < columns; ++c) row[c] = even[c * across];
      if (2 * i + 1 < depth)
        for (std::int64_t c = 0; c < columns; ++c)
          row[c] |= static_cast<std::uint32_t>(even[along_k + c * across]) << 16;
    }
  } else {
    // Two neighbours of a column are one word of 32 bits. Where words cannot be read in place, runs are copied.
    const bool in_place = along_k == 1 && across % 2 == 0 && columns == panel && 2 * pairs == depth;
    const void* runs = source;
    std::int64_t stride = across / 2;
    if (!in_place) {
      auto* staging = reinterpret_cast<std::uint16_t*>(words(layout_.staging));
      for (std::int64_t c = 0; c < panel; ++c)
        copy_run(source + c * across, along_k, c < columns ? depth : 0, 2 * pairs, staging + c * kStagedRun);
      runs = staging;
      stride = kStagedRun / 2;
    }
    kernels_.f32.transpose(static_cast<const float*>(runs), stride, pairs,
                           reinterpret_cast<float*>(pair_words));
  }
  kernels_.tc16.unpack_panel[format_](pair_words, pairs, floats(layout_.b), words(layout_.b_exponents));
}

void Tc16TileWorker::multiply(std::int64_t depth, std::int64_t slot, std::int64_t rows, float* acc,
                              bool first) {
  const std::int64_t groups = whole_groups(depth) / kGroup;
  for (std::int64_t r = 0; r < rows; r += kernels_.tc16.tile_rows) {
    const std::int64_t count = std::min<std::int64_t>(kernels_.tc16.tile_rows, rows - r);
    const std::int64_t at = slot + r * kTc16Stride;
    kernels_.tc16.tile[count](groups, floats(layout_.a + at), words(layout_.a_exponents + at),
                              floats(layout_.b), words(layout_.b_exponents), acc + r * layout_.acc_stride,
                              layout_.acc_stride, first);
  }
}

Tile<float> Tc16TileWorker::compute(const void* const* a_rows, std::int64_t rows, std::int64_t column,
                                    std::int64_t columns) {
  const std::int64_t panel = kernels_.tc16.panel_columns, stride = layout_.acc_stride;
  float* const acc = floats(layout_.acc);
  const bool one_segment = operands_.depth <= order::kSegment;
  float* const total = one_segment ? acc : floats(layout_.total_of_segments);
  if (operands_.depth == 0)
    for (std::int64_t r = 0; r < rows; ++r) std::fill(acc + r * stride, acc + r * stride + columns, 0.0f);
  for (std::int64_t begin = 0; begin < operands_.depth; begin += order::kSegment) {
    const std::int64_t end = std::min(begin + order::kSegment, operands_.depth);
    // Chunks of A outside, as many at a time as stay unpacked; then panels of B; then the chunks of each.
    const std::int64_t step = layout_.chunks_of_a * kTc16Chunk;
    for (std::int64_t outer = begin; outer < end; outer += step) {
      const std::int64_t outer_end = std::min(outer + step, end);
      const auto depth_of = [&](std::int64_t k) { return std::min(kTc16Chunk, outer_end - k); };
      const auto slot_of = [&](std::int64_t k) { return (k - outer) / kTc16Chunk * rows * kTc16Stride; };
      for (std::int64_t k = outer; k < outer_end; k += kTc16Chunk)
        unpack_a(a_rows, rows, k, depth_of(k), slot_of(k));
      for (std::int64_t c = 0; c < columns; c += panel) {
        for (std::int64_t k = outer; k < outer_end; k += kTc16Chunk) {
          unpack_b(column + c, std::min(panel, columns - c), k, depth_of(k));
          multiply(depth_of(k), slot_of(k), rows, acc + c, k == begin);
        }
      }
    }
    if (one_segment) break;  // +0 plus a segment is that segment: a chain never ends in -0
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* segment = acc + r * stride;
      float* sum = total + r * stride;
      for (std::int64_t c = 0; c < columns; ++c) sum[c] = (begin == 0 ? 0.0f : sum[c]) + segment[c];
    }
  }
  return {total, stride};
}

}  // namespace samebits::cpu
