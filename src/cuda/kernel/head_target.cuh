// The target's logit of each row by itself: one dot product of the call's contract, without bias.
#pragma once

#include "cuda/kernel/head_gradient_row.cuh"
#include "cuda/launch/head_target.h"
#include "cuda/prim/async_copy.cuh"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/prim/reduce.cuh"
#include "order/dot.h"
#include "order/number.h"

namespace samebits::cuda {

inline constexpr int kTargetThreads = 32;  // few, so that they spread over the multiprocessors
// Of tc16.v1: a warp that multiplies, and those that copy for it.
inline constexpr int kTargetCopyThreads = 128, kTargetStepThreads = 32 + kTargetCopyThreads,
                     kTargetStepRows = 16;

template <class Real>
__device__ __forceinline__ void write_target(const core::LinearLogpProblem& head, const HeadRows& list,
                                             const TargetLogits<Real>& to, std::int64_t position, Real x) {
  to.logit[position] = x;
  if (to.reference != nullptr) to.reference[position] = target_z(head, list, position, x);
}
template <class Real>
__device__ __forceinline__ void clear_counts(const TargetLogits<Real>& to) {
  if (blockIdx.x == 0)
    for (std::int64_t i = threadIdx.x; i < to.count_length; i += blockDim.x) to.count[i] = 0;
}

// fma.v1 and fma64.v1: a thread per position.
template <class T, class Real>
__global__ void __launch_bounds__(kTargetThreads)
    target_chains(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                  const __grid_constant__ TargetLogits<Real> to) {
  follow_kernel_ahead();
  clear_counts(to);
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
  write_target(head, list, to, position, total);
}

// Rows of 16-bit elements, read through shared memory: the rows are far away, so that many pieces are under way at a time.
// A piece is 128 elements of each of 32 rows, the 16-byte chunks of which are swizzled.
template <class T>
struct TargetPieces {
  static constexpr int kRows = 32, kElements = 128, kPieces = 8;
  static constexpr int kChunks = kElements / 8, kStep = kTargetCopyThreads / kChunks;
  struct Shared {
    const T* row[kRows];
    alignas(16) unsigned char data[kPieces][kRows * kElements * 2];
  };
  Shared& shared;
  int chunk, first_row;  // that this thread copies, and of each kStep-th row on
  const T* line[kRows / kStep];
  std::int64_t hidden_stride, weight_stride;  // between elements of rows 0 to 15 and of the others
  std::int64_t size;
  bool chunks;  // all rows are dense and may be read 16 bytes at a time

  // `own`: the row of this lane, in each warp.
  __device__ TargetPieces(Shared& memory, const T* own, std::int64_t of_hidden, std::int64_t of_weight,
                          std::int64_t elements)
      : shared(memory),
        chunk(static_cast<int>(threadIdx.x) % kChunks),
        first_row((static_cast<int>(threadIdx.x) - 32) / kChunks),
        hidden_stride(of_hidden),
        weight_stride(of_weight),
        size(elements) {
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) shared.row[lane] = own;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) line[i] = shared.row[max(first_row, 0) + kStep * i];
    chunks = __all_sync(kWarp, (lane < 16 ? hidden_stride : weight_stride) == 1 &&
                                   reinterpret_cast<std::uintptr_t>(own) % 16 == 0);
  }

  // Starts a piece, by a thread that copies; elements from `size` on are +0.
  __device__ __forceinline__ void start(int piece) const {
    const std::int64_t first = piece * std::int64_t{kElements} + 8 * chunk;
    const int bytes = static_cast<int>(2 * max(min(size - first, std::int64_t{8}), std::int64_t{0}));
    const auto place = [&](int row) {
      return shared.data[piece % kPieces] + row * (2 * kElements) + (chunk ^ row % 8) * 16;
    };
    if (chunks) {
      const std::int64_t offset = bytes > 0 ? first : 0;
#pragma unroll
      for (int i = 0; i < kRows / kStep; ++i)
        copy16_partial(shared_address(place(first_row + kStep * i)), line[i] + offset, bytes);
      return;
    }
#pragma unroll 1
    for (int row = first_row; row < kRows; row += kStep) {
      auto* out = reinterpret_cast<std::uint16_t*>(place(row));
      const T* elements = shared.row[row];
      const std::int64_t stride = row < 16 ? hidden_stride : weight_stride;
      for (int e = 0; e < 8; ++e)
        out[e] = 2 * e < bytes ? elements[(first + e) * stride].bits : std::uint16_t{0};
    }
  }
  // This lane's four elements of a row for step `step` of a piece.
  __device__ __forceinline__ uint2 four(int piece, int row, int step) const {
    const int quarter = threadIdx.x % 4;
    const unsigned char* line = shared.data[piece % kPieces] + row * (2 * kElements);
    return *reinterpret_cast<const uint2*>(line + ((2 * step + quarter / 2) ^ row % 8) * 16 +
                                           quarter % 2 * 8);
  }
};

extern __shared__ __align__(16) unsigned char target_memory[];

// tc16.v1: 16 positions to a CTA, whose rows of hidden meet the rows of weight of their 16 targets; only the diagonal of that
// product is wanted. A step adds its 16 products in any order, so that a lane may give it four neighbours.
template <class T>
__global__ void __launch_bounds__(kTargetStepThreads)
    target_steps(const __grid_constant__ core::LinearLogpProblem head, const __grid_constant__ HeadRows list,
                 const __grid_constant__ TargetLogits<float> to) {
  follow_kernel_ahead();
  clear_counts(to);
  using Pieces = TargetPieces<T>;
  auto& shared = *reinterpret_cast<typename Pieces::Shared*>(target_memory);
  const int lane = threadIdx.x % 32, group = lane / 4;
  const std::int64_t first = blockIdx.x * std::int64_t{kTargetStepRows}, count = *list.count;
  if (first >= count) return;
  // Beyond the last position it stands in: what it gives is dropped.
  const std::int64_t position = min(first + lane % 16, count - 1);
  const T* own =
      lane < 16 ? head.hidden.at<T>(list.row[position])
                : static_cast<const T*>(head.weight.data) + list.target[position] * head.weight.row_stride;
  const Pieces pieces(shared, own, head.hidden_stride, head.weight.column_stride, head.hidden_size);
  const int many = static_cast<int>((head.hidden_size + Pieces::kElements - 1) / Pieces::kElements);
  const bool copies = threadIdx.x >= 32;
  if (copies)
    for (int piece = 0; piece < Pieces::kPieces - 1; ++piece) {
      if (piece < many) pieces.start(piece);
      copy_commit();
    }

  float low[4] = {}, high[4] = {};      // the 16 rows with the first 8 targets, and with the other 8
  float total_low = 0, total_high = 0;  // of the diagonal, in the lanes that hold it
  const auto end_segment = [&] {
    total_low = total_low + (group % 2 == 0 ? low[0] : low[1]);
    total_high = total_high + (group % 2 == 0 ? high[2] : high[3]);
  };
  for (int piece = 0; piece < many; ++piece) {
    if (copies) copy_wait_all_but<Pieces::kPieces - 2>();
    __syncthreads();  // the piece is there, and the one before has been read
    if (copies) {
      if (piece + Pieces::kPieces - 1 < many) pieces.start(piece + Pieces::kPieces - 1);
      copy_commit();
      continue;
    }
    if (piece > 0 && piece % (order::kSegment / Pieces::kElements) == 0) {
      end_segment();
#pragma unroll
      for (int i = 0; i < 4; ++i) low[i] = high[i] = 0;
    }
    constexpr int kSteps = Pieces::kElements / 16;
    uint2 of[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) of[step][i] = pieces.four(piece, group + 8 * i, step);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {  // behind the end there are zeros, which change nothing
      const std::uint32_t a[4] = {of[step][0].x, of[step][1].x, of[step][0].y, of[step][1].y};
      mma_step<T>(low, a, of[step][2].x, of[step][2].y);
      mma_step<T>(high, a, of[step][3].x, of[step][3].y);
    }
  }
  end_segment();
  if (copies || lane % 4 != group / 2) return;
  if (first + group < count) write_target(head, list, to, first + group, total_low);
  if (first + group + 8 < count) write_target(head, list, to, first + group + 8, total_high);
}

}  // namespace samebits::cuda
