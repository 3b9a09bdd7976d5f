#include "cpu/matmul_kernels.h"

#include <utility>

#include "cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/matmul_kernels.cpp"
#include <hwy/foreach_target.h>

#include "cpu/hwy_ops.h"

HWY_BEFORE_NAMESPACE();
namespace samebits::cpu::HWY_NAMESPACE {
namespace {

// The register tile: kRows x kVectors accumulators, kVectors of B and one of A have to fit into the registers.
#if HWY_TARGET == HWY_AVX3
constexpr int kRows = 12, kVectors = 2;  // 27 of 32
#elif HWY_TARGET == HWY_AVX2
constexpr int kRows = 6, kVectors = 2;  // 15 of 16
#elif HWY_TARGET == HWY_NEON
constexpr int kRows = 12, kVectors = 2;  // 27 of 32
#else
constexpr int kRows = 4, kVectors = 2;
#endif
static_assert(kRows <= kMaxTileRows);

template <class Real>
using Tag = hn::ScalableTag<Real>;
template <class Real>
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<Real>()));

template <class Real, int R>
void tile(std::int64_t depth, const Real* HWY_RESTRICT a, const Real* HWY_RESTRICT b, std::int64_t b_stride,
          Real* HWY_RESTRICT acc, std::int64_t acc_stride, bool first, const Real* ahead,
          std::int64_t ahead_stride) {
  const Tag<Real> d;
  constexpr int kN = kLanes<Real>;
  // The lines fetched ahead are spread over the steps of a whole chunk, kFetches each: memory and arithmetic work
  // at the same time, which few rows need most.
  constexpr int kLine = 64 / sizeof(Real);
  constexpr int kFetches = kVectors * kN / kLine > 0 ? kVectors * kN / kLine : 1;
  constexpr std::int64_t kStepsOfColumn = kChunk<Real> / kLine / kFetches;
  hn::Vec<Tag<Real>> sum[R][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = first ? hn::Zero(d) : hn::LoadU(d, acc + r * acc_stride + v * kN);
  }
  for (std::int64_t start = 0; start < depth; start += kStepsOfColumn) {
    const std::int64_t end = start + kStepsOfColumn < depth ? start + kStepsOfColumn : depth;
    const Real* fetch = ahead;
    ahead += ahead_stride;
    for (std::int64_t k = start; k < end; ++k) {
      HWY_UNROLL(4)
      for (int i = 0; i < kFetches; ++i) __builtin_prefetch(fetch + i * kLine, 0, 2);
      fetch += kFetches * kLine;
      hn::Vec<Tag<Real>> column[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * kN);
      b += b_stride;
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        const auto scale = hn::Set(d, a[r * kPackedStride<Real> + k]);
        HWY_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = FusedMulAdd(scale, column[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, acc + r * acc_stride + v * kN);
  }
}

// One 128-bit block from each of the rows that share a lane position, `stride` apart: lane block i holds row i.
template <class Real, class D = Tag<Real>>
HWY_INLINE hn::Vec<D> load_blocks(const Real* HWY_RESTRICT p, std::int64_t stride) {
  constexpr std::size_t kBlock = 16 / sizeof(Real);
  const hn::CappedTag<Real, kBlock> block;
#if HWY_TARGET == HWY_AVX3
  const Tag<Real> d;
  const hn::Half<D> half;
  const auto low = hn::Combine(half, hn::LoadU(block, p + stride), hn::LoadU(block, p));
  const auto high = hn::Combine(half, hn::LoadU(block, p + 3 * stride), hn::LoadU(block, p + 2 * stride));
  return hn::Combine(d, high, low);
#elif HWY_TARGET == HWY_AVX2
  return hn::Combine(Tag<Real>(), hn::LoadU(block, p + stride), hn::LoadU(block, p));
#else
  (void)stride;
  return hn::LoadU(block, p);
#endif
}

// Four (binary64: two) steps of k for one vector of columns, transposed inside 128-bit blocks.
template <class Real>
HWY_INLINE void transpose_block(const Real* HWY_RESTRICT source, std::int64_t stride,
                                Real* HWY_RESTRICT packed, std::int64_t packed_stride) {
  // Lane 4 b + i of a vector is column 4 b + i (binary64: 2 b + i), so block b of load i comes from that column.
  const Tag<Real> d;
  if constexpr (sizeof(Real) == 4) {
    const hn::Repartition<double, Tag<Real>> dd;
    const auto x0 = load_blocks<Real>(source, 4 * stride);
    const auto x1 = load_blocks<Real>(source + stride, 4 * stride);
    const auto x2 = load_blocks<Real>(source + 2 * stride, 4 * stride);
    const auto x3 = load_blocks<Real>(source + 3 * stride, 4 * stride);
    const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, x0, x1));
    const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, x2, x3));
    const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, x0, x1));
    const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, x2, x3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, packed);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, packed + packed_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, packed + 2 * packed_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, packed + 3 * packed_stride);
  } else {
    const auto x0 = load_blocks<Real>(source, 2 * stride);
    const auto x1 = load_blocks<Real>(source + stride, 2 * stride);
    hn::StoreU(hn::InterleaveLower(d, x0, x1), d, packed);
    hn::StoreU(hn::InterleaveUpper(d, x0, x1), d, packed + packed_stride);
  }
}

template <class Real>
void transpose(const Real* HWY_RESTRICT source, std::int64_t stride, std::int64_t depth,
               Real* HWY_RESTRICT packed) {
  constexpr int kN = kLanes<Real>;
  constexpr int kPanel = kVectors * kN;
  constexpr std::int64_t kStep = 16 / sizeof(Real);
  std::int64_t k = 0;
  for (; k + kStep <= depth; k += kStep) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v)
      transpose_block<Real>(source + v * kN * stride + k, stride, packed + k * kPanel + v * kN, kPanel);
  }
  for (; k < depth; ++k)
    for (int c = 0; c < kPanel; ++c) packed[k * kPanel + c] = source[c * stride + k];
}

template <class Real>
DotKernels<Real> make_dot_kernels() {
  DotKernels<Real> kernels;
  kernels.tile_rows = kRows;
  kernels.panel_columns = kVectors * kLanes<Real>;
  [&]<int... R>(std::integer_sequence<int, R...>) {
    ((kernels.tile[R + 1] = tile<Real, R + 1>), ...);
  }(std::make_integer_sequence<int, kRows>());
  kernels.transpose = transpose<Real>;
  return kernels;
}

}  // namespace

const MatmulKernels* matmul_kernels() {
  static const MatmulKernels kernels{make_dot_kernels<float>(), make_dot_kernels<double>()};
  return &kernels;
}

}  // namespace samebits::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samebits::cpu {

const MatmulKernels* matmul_kernels(Isa isa) {
  switch (isa) {
#if HWY_TARGETS & HWY_AVX3
    case Isa::kAvx512: return N_AVX3::matmul_kernels();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Isa::kAvx2: return N_AVX2::matmul_kernels();
#endif
#if HWY_TARGETS & HWY_NEON
    case Isa::kNeon: return N_NEON::matmul_kernels();
#endif
#if HWY_TARGETS & HWY_EMU128
    case Isa::kScalar: return N_EMU128::matmul_kernels();
#endif
    default: return nullptr;
  }
}

}  // namespace samebits::cpu
#endif  // HWY_ONCE
