// tc16.v1 by mma.sync: a CTA computes 128 x 128 elements, a warp 64 x 32 of them, 64 of k at a time through a ring of
// shared memory. The chain of an element is the tensor core's own; everything here only feeds it.
#pragma once

#include "cuda/kernel/product.cuh"
#include "cuda/prim/async_copy.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/prim/pair.cuh"
#include "order/dot.h"

namespace samebits::cuda {

inline constexpr int kMmaTile = 128, kMmaDepth = 64, kMmaStages = 3, kMmaThreads = 256;
inline constexpr int kMmaOperandBytes = kMmaTile * kMmaDepth * 2;
inline constexpr int kMmaSharedBytes = kMmaStages * 2 * kMmaOperandBytes;

// Where the 16 bytes `chunk` of a line are; the exclusive or keeps eight lines of one chunk out of each other's banks.
template <int kChunks>
__device__ __forceinline__ std::uint32_t chunk_offset(int line, int chunk) {
  return static_cast<std::uint32_t>((line * kChunks + (chunk ^ (line & 7))) * 16);
}

// An operand by its axis along the result and its axis along k.
struct OperandAxes {
  const std::uint16_t* data;
  std::int64_t along_stride, deep_stride, along_end;
  bool
      vectors;  // 16 bytes at a time: one stride is 1, and every line along that axis begins on such a boundary
};

// Brings tiles of 128 along the result by 64 of k, step by step; what lies beyond an end becomes +0. A tile's lines run
// along k where the operand is kDense, else along the result. A thread has one chunk of 8 elements of every fourth part
// of the lines.
template <bool kDense>
class TileLoader {
 public:
  static constexpr int kChunks = kDense ? kMmaDepth / 8 : kMmaTile / 8, kRoundLines = kMmaThreads / kChunks;

  __device__ TileLoader(const OperandAxes& axes, std::int64_t first, std::int64_t depth)
      : inner_stride_(kDense ? axes.deep_stride : axes.along_stride), vectors_(axes.vectors) {
    const int line = static_cast<int>(threadIdx.x) / kChunks, chunk = static_cast<int>(threadIdx.x) % kChunks;
    const std::int64_t along = first + (kDense ? line : 8 * chunk);
    deep_left_ = depth - (kDense ? 8 * chunk : line);
    along_left_ = static_cast<int>(min(max(axes.along_end - along, std::int64_t{0}), std::int64_t{kMmaTile}));
    const std::int64_t line_stride = kDense ? axes.along_stride : axes.deep_stride;
    round_stride_ = kRoundLines * line_stride;
    from_ = axes.data + along * axes.along_stride + (depth - deep_left_) * axes.deep_stride;
    to_ = chunk_offset<kChunks>(line, chunk);
  }

  // The next step's tile to `shared`.
  __device__ __forceinline__ void load(std::uint32_t shared) {
    constexpr int kRounds = kMmaTile * kMmaDepth / 8 / kMmaThreads;
    const int whole = kDense ? within_chunk(deep_left_) : within_chunk(along_left_);
    const auto valid = [&](int round) {
      const int line = round * kRoundLines;
      return (kDense ? line < along_left_ : line < deep_left_) ? whole : 0;
    };
    const auto to = [&](int round) {
      return shared + to_ + static_cast<std::uint32_t>(round * kRoundLines * kChunks * 16);
    };
    if (vectors_) {
#pragma unroll
      for (int round = 0; round < kRounds; ++round)
        copy16_partial(to(round), from_ + round * round_stride_, 2 * valid(round));
    } else {
#pragma unroll 1
      for (int round = 0; round < kRounds; ++round)
        gather(to(round), from_ + round * round_stride_, valid(round));
    }
    from_ += kDense ? kMmaDepth * inner_stride_ : kRounds * round_stride_;
    deep_left_ -= kMmaDepth;
  }

 private:
  template <class Count>
  static __device__ __forceinline__ int within_chunk(Count left) {
    return left <= 0 ? 0 : left < 8 ? static_cast<int>(left) : 8;
  }

  __device__ __forceinline__ void gather(std::uint32_t to, const std::uint16_t* from, int valid) const {
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t low = 2 * w < valid ? from[2 * w * inner_stride_] : 0u;
      const std::uint32_t high = 2 * w + 1 < valid ? from[(2 * w + 1) * inner_stride_] : 0u;
      words[w] = low | high << 16;
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
  }

  const std::uint16_t* from_;
  std::int64_t round_stride_, inner_stride_, deep_left_;
  int along_left_;
  std::uint32_t to_;
  bool vectors_;
};

// The 16 x 16 elements from `first` along the result and `k`, as four matrices: `along` and `deep` say which half of
// either axis this lane's matrix takes.
template <bool kDense>
__device__ __forceinline__ void load_fragment(std::uint32_t (&words)[4], std::uint32_t shared, int first,
                                              int k, int along, int deep) {
  const int lane = static_cast<int>(threadIdx.x) % 8;
  if constexpr (kDense)
    load_matrices<false>(words, shared + chunk_offset<kMmaDepth / 8>(first + along * 8 + lane, k / 8 + deep));
  else
    load_matrices<true>(words, shared + chunk_offset<kMmaTile / 8>(k + deep * 8 + lane, first / 8 + along));
}

// Two neighbouring elements of a row.
template <class T>
__device__ __forceinline__ void store_pair(const Product& p, bool pairs, std::int64_t row,
                                           std::int64_t column, float low, float high) {
  if (p.bias != nullptr) {
    low = low + bias_of<float>(p, column);
    if (column + 1 < p.columns) high = high + bias_of<float>(p, column + 1);
  }
  if (!pairs || column + 1 == p.columns) {
    store_element(p, row, column, low);
    if (column + 1 < p.columns) store_element(p, row, column + 1, high);
  } else if (p.out_dtype == DType::kFloat32) {
    float* out = static_cast<float*>(p.out) + row * p.out_row_stride + column;
    *reinterpret_cast<float2*>(out) = {low, high};
  } else {
    std::uint16_t* out = static_cast<std::uint16_t*>(p.out) + row * p.out_row_stride + column;
    *reinterpret_cast<std::uint32_t*>(out) = pair_of<T>(low, high);
  }
}

// T is the operands' type; kDenseA, kDenseB: the operand's lines run along k. `pairs`: two neighbouring elements of
// `out` may be stored at once. kLong: more than one segment, whose sums take the registers of a second CTA.
template <class T, bool kDenseA, bool kDenseB, bool kLong>
__global__ __launch_bounds__(kMmaThreads,
                             kLong ? 1 : kMmaCtas) void product_mma_tile(const __grid_constant__ Product p,
                                                                         bool vectors_a, bool vectors_b,
                                                                         bool pairs) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const std::int64_t rows = bounded(p.rows, p.row_bound, p.row_first);
  const TilePlace tile = tile_place<kMmaTile, kMmaTile>(p);
  if (tile.row >= rows) return;
  const std::int64_t depth = bounded(p.depth, p.depth_bound, p.depth_first);
  TileLoader<kDenseA> load_a(
      {static_cast<const std::uint16_t*>(p.a.data), p.a.row_stride, p.a.column_stride, rows, vectors_a},
      tile.row, depth);
  TileLoader<kDenseB> load_b(
      {static_cast<const std::uint16_t*>(p.b.data), p.b.column_stride, p.b.row_stride, p.columns, vectors_b},
      tile.column, depth);

  const std::uint32_t ring = shared_address(shared_bytes);
  const std::int64_t steps = (depth + kMmaDepth - 1) / kMmaDepth;
  const auto load_step = [&](std::int64_t step, int stage) {
    const std::uint32_t to = ring + static_cast<std::uint32_t>(stage * 2 * kMmaOperandBytes);
    if (step < steps) {
      load_a.load(to);
      load_b.load(to + kMmaOperandBytes);
    }
    copy_commit();
  };

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  const int first_half = lane / 8 % 2, second_half = lane / 16;
  float acc[4][4][4] = {}, total[kLong ? 4 : 1][4][4] = {};
  for (int step = 0; step < kMmaStages - 1; ++step) load_step(step, step);
  int computed = 0, filled = kMmaStages - 1;  // stages of the ring
  const auto next = [](int stage) { return stage + 1 == kMmaStages ? 0 : stage + 1; };
  for (std::int64_t step = 0; step < steps; ++step) {
    copy_wait_all_but<kMmaStages - 2>();
    __syncthreads();  // this stage is there, and everyone is done with the one that is filled now
    load_step(step + kMmaStages - 1, filled);
    const std::uint32_t stage = ring + static_cast<std::uint32_t>(computed * 2 * kMmaOperandBytes);
    computed = next(computed);
    filled = next(filled);
#pragma unroll 1  // more of it does not fit into the registers of half a multiprocessor
    for (int k = 0; k < kMmaDepth; k += 16) {
      std::uint32_t left[4][4], right[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        load_fragment<kDenseA>(left[i], stage, warp_row + i * 16, k, first_half, second_half);
#pragma unroll
      for (int j = 0; j < 2; ++j)
        load_fragment<kDenseB>(right[j], stage + kMmaOperandBytes, warp_column + j * 16, k, second_half,
                               first_half);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma_step<T>(acc[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
    if constexpr (kLong) {
      constexpr std::int64_t kSegmentSteps = order::kSegment / kMmaDepth;
      if (step % kSegmentSteps != kSegmentSteps - 1 && step + 1 != steps) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            total[i][j][e] = total[i][j][e] + acc[i][j][e];
            acc[i][j][e] = 0.0f;
          }
    }
  }

  // Of one segment the chain is the sum: the tensor core never makes a -0.
  const auto sum = [&](int i, int j, int e) { return kLong ? total[kLong ? i : 0][j][e] : acc[i][j][e]; };
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = tile.row + warp_row + i * 16 + half * 8 + lane / 4;
      if (row >= rows) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t column = tile.column + warp_column + j * 8 + lane % 4 * 2;
        if (column < p.columns)
          store_pair<T>(p, pairs, row, column, sum(i, j, 2 * half), sum(i, j, 2 * half + 1));
      }
    }
}

}  // namespace samebits::cuda
