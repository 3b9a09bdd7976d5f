// The target's logit of each row by itself: one dot product of the call's contract, without bias.
#pragma once

#include "cuda/launch/head_rows.h"
#include "cuda/prim/async_copy.cuh"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/prim/reduce.cuh"
#include "order/dot.h"
#include "order/number.h"

namespace samebits::cuda {

inline constexpr int kTargetThreads = 32;  // few, so that they spread over the multiprocessors

// fma.v1 and fma64.v1: a thread per position.
template <class T, class Real>
__global__ void __launch_bounds__(kTargetThreads)
    target_chains(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                  Real* out) {
  follow_kernel_ahead();
  const std::int64_t position = blockIdx.x * std::int64_t{kTargetThreads} + threadIdx.x;
  if (position >= *list.count) return;
  const T* hidden = head.hidden.at<T>(list.row[position]);
  const T* weight = static_cast<const T*>(head.weight.data) + list.target[position] * head.weight.row_stride;
  Real total = 0;
  for (std::int64_t first = 0; first < head.hidden_size; first += order::kSegment) {
    const std::int64_t end = min(first + order::kSegment, head.hidden_size);
    Real acc = 0;
#pragma unroll 8
    for (std::int64_t k = first; k < end; ++k)
      acc = order::fma(order::widen<Real>(hidden[k * head.hidden_stride]),
                       order::widen<Real>(weight[k * head.weight.column_stride]), acc);
    total = total + acc;
  }
  out[position] = total;
}

// Rows of 16-bit elements, read through shared memory: the rows are far away, so that many pieces are under way at a time.
// A piece is 64 elements of each of the 32 rows of a warp, 128 bytes a row, the 16-byte chunks of which are swizzled.
template <class T>
struct TargetPieces {
  static constexpr int kRows = 32, kElements = 64, kPieces = 8;
  struct Shared {
    const T* row[kRows];
    alignas(16) unsigned char data[kPieces][kRows * kElements * 2];
  };
  Shared& shared;
  const T* line[kRows / 4];                   // the rows of which this lane copies a chunk
  std::int64_t hidden_stride, weight_stride;  // between elements of rows 0 to 15 and of the others
  std::int64_t size;
  bool chunks;  // all rows are dense and may be read 16 bytes at a time

  // `own`: the row of this lane.
  __device__ TargetPieces(Shared& memory, const T* own, std::int64_t of_hidden, std::int64_t of_weight,
                          std::int64_t elements)
      : shared(memory), hidden_stride(of_hidden), weight_stride(of_weight), size(elements) {
    const int lane = threadIdx.x % 32;
    shared.row[lane] = own;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) line[i] = shared.row[lane / 8 + 4 * i];
    chunks = __all_sync(kWarp, (lane < 16 ? hidden_stride : weight_stride) == 1 &&
                                   reinterpret_cast<std::uintptr_t>(own) % 16 == 0);
  }

  // Starts a piece, of elements from `from` on; from `size` on they are +0.
  __device__ __forceinline__ void start(std::int64_t piece, std::int64_t from) const {
    const int lane = threadIdx.x % 32, chunk = lane % 8;
    const std::int64_t first = from + 8 * chunk;
    const int bytes = static_cast<int>(2 * max(min(size - first, std::int64_t{8}), std::int64_t{0}));
    const auto place = [&](int row) {
      return shared.data[piece % kPieces] + row * 128 + (chunk ^ row % 8) * 16;
    };
    if (chunks) {
      const std::int64_t offset = bytes > 0 ? first : 0;
#pragma unroll
      for (int i = 0; i < kRows / 4; ++i)
        copy16_partial(shared_address(place(lane / 8 + 4 * i)), line[i] + offset, bytes);
      return;
    }
#pragma unroll 1
    for (int row = lane / 8; row < kRows; row += 4) {
      auto* out = reinterpret_cast<std::uint16_t*>(place(row));
      const T* elements = shared.row[row];
      const std::int64_t stride = row < 16 ? hidden_stride : weight_stride;
      for (int e = 0; e < 8; ++e)
        out[e] = 2 * e < bytes ? elements[(first + e) * stride].bits : std::uint16_t{0};
    }
  }
  // This lane's four elements of a row for step `step` of a piece.
  __device__ __forceinline__ uint2 four(std::int64_t piece, int row, int step) const {
    const int quarter = threadIdx.x % 4;
    const unsigned char* line = shared.data[piece % kPieces] + row * 128;
    return *reinterpret_cast<const uint2*>(line + ((2 * step + quarter / 2) ^ row % 8) * 16 +
                                           quarter % 2 * 8);
  }
};

// tc16.v1: a warp per 16 positions, whose rows of hidden meet the rows of weight of their 16 targets; only the diagonal of
// that product is wanted. A step adds its 16 products in any order, so that a lane may give it four neighbours.
template <class T>
__global__ void __launch_bounds__(kTargetThreads)
    target_steps(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                 float* out) {
  follow_kernel_ahead();
  static_assert(kTargetThreads == 32);
  using Pieces = TargetPieces<T>;
  __shared__ typename Pieces::Shared shared;
  const int lane = threadIdx.x, group = lane / 4;
  const std::int64_t first = blockIdx.x * std::int64_t{16}, count = *list.count, size = head.hidden_size;
  if (first >= count) return;
  // Beyond the last position it stands in: what it gives is dropped.
  const std::int64_t position = min(first + lane % 16, count - 1);
  const T* own =
      lane < 16 ? head.hidden.at<T>(list.row[position])
                : static_cast<const T*>(head.weight.data) + list.target[position] * head.weight.row_stride;
  const Pieces pieces(shared, own, head.hidden_stride, head.weight.column_stride, size);
  const std::int64_t many = (size + Pieces::kElements - 1) / Pieces::kElements;
  for (std::int64_t piece = 0; piece < Pieces::kPieces - 1; ++piece) {
    if (piece < many) pieces.start(piece, piece * Pieces::kElements);
    copy_commit();
  }

  float low[4] = {}, high[4] = {};      // the 16 rows with the first 8 targets, and with the other 8
  float total_low = 0, total_high = 0;  // of the diagonal, in the lanes that hold it
  for (std::int64_t piece = 0; piece < many; ++piece) {
    if (piece > 0 && piece * Pieces::kElements % order::kSegment == 0) {
      total_low = total_low + (group % 2 == 0 ? low[0] : low[1]);
      total_high = total_high + (group % 2 == 0 ? high[2] : high[3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) low[i] = high[i] = 0;
    }
    copy_wait_all_but<Pieces::kPieces - 2>();
    __syncwarp();  // the piece is there for all lanes, and all have read the one before
    // All at once, ahead of the copies: the products wait for each other long enough.
    constexpr int kSteps = Pieces::kElements / 16;
    uint2 of[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) of[step][i] = pieces.four(piece, group + 8 * i, step);
    const std::int64_t next = piece + Pieces::kPieces - 1;
    if (next < many) pieces.start(next, next * Pieces::kElements);
    copy_commit();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {  // behind the end there are zeros, which change nothing
      const std::uint32_t a[4] = {of[step][0].x, of[step][1].x, of[step][0].y, of[step][1].y};
      mma_step<T>(low, a, of[step][2].x, of[step][2].y);
      mma_step<T>(high, a, of[step][3].x, of[step][3].y);
    }
  }
  total_low = total_low + (group % 2 == 0 ? low[0] : low[1]);
  total_high = total_high + (group % 2 == 0 ? high[2] : high[3]);
  if (lane % 4 != group / 2) return;
  if (first + group < count) out[first + group] = total_low;
  if (first + group + 8 < count) out[first + group + 8] = total_high;
}

}  // namespace samebits::cuda
