// What the product kernels share: which tile a CTA computes, how far it reaches, and the end of an element.
#pragma once

#include "cuda/launch/product.h"
#include "cuda/prim/load.cuh"

namespace samebits::cuda {

// `count`, cut where the device's bound says so.
__device__ __forceinline__ std::int64_t bounded(std::int64_t count, const std::int32_t* bound,
                                                std::int64_t first) {
  if (bound == nullptr) return count;
  const std::int64_t left = *bound - first;
  return left < 0 ? 0 : left < count ? left : count;
}

// CTAs that a multiprocessor holds of the product kernels, where the compiler gets one into half of the registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
inline constexpr int kMmaCtas = 2, kFmaCtas = 2;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr int kMmaCtas = 2, kFmaCtas = 1;
#else
inline constexpr int kMmaCtas = 1, kFmaCtas = 1;
#endif

struct TilePlace {
  std::int64_t row, column;
};

// CTAs that run at the same time share rows of both operands in L2: they take eight tiles of rows, then the next column.
template <int kTileRows, int kTileColumns>
__device__ __forceinline__ TilePlace tile_place(const Product& p) {
  constexpr std::int64_t kBand = 8;
  const std::int64_t row_tiles = (p.rows + kTileRows - 1) / kTileRows;
  const std::int64_t column_tiles = (p.columns + kTileColumns - 1) / kTileColumns;
  const std::int64_t band = blockIdx.x / (kBand * column_tiles);
  const std::int64_t inside = blockIdx.x - band * kBand * column_tiles;
  const std::int64_t left = row_tiles - band * kBand;
  const std::int64_t height = left < kBand ? left : kBand;
  return {(band * kBand + inside % height) * kTileRows, inside / height * kTileColumns};
}

template <class Real>
__device__ __forceinline__ Real bias_of(const Product& p, std::int64_t column) {
  return load_logit<Real>(static_cast<const char*>(p.bias), p.a_dtype, column * p.bias_stride);
}

template <class Real>
__device__ __forceinline__ void store_element(const Product& p, std::int64_t row, std::int64_t column,
                                              Real value) {
  char* start = static_cast<char*>(p.out) + row * p.out_row_stride * dtype_size(p.out_dtype);
  store_rounded(start, p.out_dtype, column, value);
}

}  // namespace samebits::cuda
