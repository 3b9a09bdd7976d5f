// First-order gradient of many rows on SM90 and newer: chunks of a row come into shared memory by the copy engine, are
// computed on in place and leave by it, so that memory sees long reads and long writes. Otherwise as logp_backward_tile.
#pragma once

#include <cstring>

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/prim/tma.cuh"

namespace samebits::cuda {

// A CTA takes a part of so many chunks, of so many vectors per thread; registers leave room for so many CTAs.
template <class T>
inline constexpr int kBulkChunks = sizeof(T) == 4 ? 2 : 3;
inline constexpr int kBulkVectors = 3, kBulkCtas = 4;
template <class T>
inline constexpr int kChunkColumns = kGradientThreads * kBulkVectors * Vector<T>::kCount;
template <class T>
inline constexpr int kBulkBytes = kBulkChunks<T> * kGradientThreads * kBulkVectors * 16;

// Element `i` of memory that was written as vectors; by bytes, so that the compiler keeps the two in order.
template <class T>
__device__ __forceinline__ void put(uint4* vectors, int i, T value) {
  std::memcpy(reinterpret_cast<char*>(vectors) + i * static_cast<int>(sizeof(T)), &value, sizeof(T));
}

template <class T, bool entropy>
__global__ void __launch_bounds__(kGradientThreads, kBulkCtas)
    logp_backward_bulk(const __grid_constant__ core::LogpProblem problem, const ColumnSplit split) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Row = order::RowV1;
  constexpr int kColumns = kChunkColumns<T>, kChunkVectors = kGradientThreads * kBulkVectors;
  extern __shared__ __align__(128) uint4 chunks[];
  __shared__ Barrier came[kBulkChunks<T>];
  __shared__ GradientShared<Row> shared;
  const GradientPart<T> part(problem, split);
  // Of the chunk that begins with this column, vectors alone.
  const auto bytes_from = [&](int column) {
    return max(min(part.end - column, kColumns), 0) * static_cast<int>(sizeof(T));
  };
  const auto fetch = [&](int i) {
    const int column = part.first + i * kColumns, bytes = bytes_from(column);
    if (bytes == 0) return;
    barrier_expect(&came[i], bytes);
    bulk_load(chunks + i * kChunkVectors, part.x + column, bytes, &came[i]);
  };
  if (threadIdx.x == 0) {
    for (Barrier& barrier : came) barrier_init(&barrier, 1);
    barrier_init_done();
    fetch(0);
    if (split.rows == nullptr) prepare_gradient<Row>(problem, part.row, shared);
  }
  if (split.rows != nullptr) take_row(shared, split, part.row);
  __syncthreads();
  const bool live = shared.form == RowForm::kLive;
  // Rows that need no logits read no more of them.
  if (threadIdx.x == 0 && live)
    for (int i = 1; i < kBulkChunks<T>; ++i) fetch(i);

  const order::GradientRow<Row> g = shared.row;
#pragma unroll 1
  for (int i = 0, column = part.first; i < kBulkChunks<T> && column < part.end; ++i, column += kColumns) {
    uint4* const chunk = chunks + i * kChunkVectors;
    uint4* const mine = chunk + threadIdx.x;
    if (i == 0 || live) barrier_wait(&came[i], 0);
    Vectors<T, kBulkVectors> vectors;
    if (live) {
#pragma unroll
      for (int v = 0; v < kBulkVectors; ++v) vectors.at[v].take(mine[v * kGradientThreads]);
      gradient_of<entropy>(vectors, g);
    } else {
      vectors.fill(constant_gradient(shared.form));
    }
#pragma unroll
    for (int v = 0; v < kBulkVectors; ++v) mine[v * kGradientThreads] = vectors.at[v].whole();
    // The target's column, by the thread that wrote it like the others.
    const std::int64_t target = shared.target - column;
    if (live && target >= 0 && target < kColumns) {
      const int at = static_cast<int>(target);
      if (at / Vector<T>::kCount % kGradientThreads == static_cast<int>(threadIdx.x))
        put(chunk, at, order::round_to<T>(shared.target_value));
    }
    shared_to_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(part.dx + column, chunk, bytes_from(column));
      store_commit();
    }
  }
  part.other_columns(shared);
  if (threadIdx.x == 0) store_wait_read<0>();
#endif
}

}  // namespace samebits::cuda
