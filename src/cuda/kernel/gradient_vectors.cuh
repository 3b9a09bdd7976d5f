// Logits of a row in vectors of 16 bytes, and their first-order gradient in place of them. CONTRACT section 1.
#pragma once

#include "cuda/prim/pair.cuh"
#include "order/row.h"

namespace samebits::cuda {

inline constexpr int kGradientThreads = 256;

// 16 bytes of logits, and of their gradient.
template <class T>
struct Vector {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  std::uint32_t words[4];

  // Any values, at no cost: one that is not loaded is computed on, too, and is not stored.
  __device__ __forceinline__ Vector() {
#pragma unroll
    for (std::uint32_t& word : words) asm("" : "=r"(word));
  }
  __device__ __forceinline__ void take(const uint4& v) {
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  }
  __device__ __forceinline__ uint4 whole() const {
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
  __device__ __forceinline__ void load(const char* from) {
    take(__ldcs(reinterpret_cast<const uint4*>(from)));
  }
  __device__ __forceinline__ void store(char* to) const { __stcs(reinterpret_cast<uint4*>(to), whole()); }
  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4)
      return __uint_as_float(words[i]);
    else
      return pair_value<T>(words[i / 2], i % 2);
  }
  // Rounds once.
  __device__ __forceinline__ void set(const float (&value)[kCount]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4)
        words[i] = __float_as_uint(value[i]);
      else
        words[i] = pair_of<T>(value[2 * i], value[2 * i + 1]);
    }
  }
};

// Vectors of a thread, kGradientThreads of them apart.
template <class T, int count>
struct Vectors {
  static constexpr int kStride = kGradientThreads * Vector<T>::kCount;
  Vector<T> at[count];

  // `row` points at this thread's first column, which is `column`; vectors end at `end`.
  __device__ __forceinline__ void load(const char* row, int column, int end) {
#pragma unroll
    for (int v = 0; v < count; ++v)
      if (column + v * kStride < end) at[v].load(row + v * kStride * static_cast<int>(sizeof(T)));
  }
  __device__ __forceinline__ void store(char* row, int column, int end) const {
#pragma unroll
    for (int v = 0; v < count; ++v)
      if (column + v * kStride < end) at[v].store(row + v * kStride * static_cast<int>(sizeof(T)));
  }
  // The same value in all columns.
  __device__ __forceinline__ void fill(float value) {
    float values[Vector<T>::kCount];
#pragma unroll
    for (float& element : values) element = value;
#pragma unroll
    for (Vector<T>& vector : at) vector.set(values);
  }
};

// The smallest logit of a thread.
template <class T, int count>
__device__ __forceinline__ float lowest_of(const Vectors<T, count>& vectors) {
  if constexpr (sizeof(T) == 4) {
    float low = vectors.at[0].get(0);
#pragma unroll
    for (int i = 1; i < 4 * count; ++i) low = fminf(low, vectors.at[i / 4].get(i % 4));
    return low;
  } else {
    std::uint32_t low = vectors.at[0].words[0];
#pragma unroll
    for (int i = 1; i < 4 * count; ++i) low = pair_min<T>(low, vectors.at[i / 4].words[i % 4]);
    return fminf(pair_value<T>(low, 0), pair_value<T>(low, 1));
  }
}

// The gradient of columns that are not the target, in place of their logits. `scaled`: there is a temperature; `clamped`:
// some may lie below the cut. Others have a probability that is not 0: at least 2^-126, over a sum of 2^22 at most.
template <bool entropy, bool scaled, bool clamped, class T, int count>
__device__ __forceinline__ void gradient_of(Vectors<T, count>& vectors,
                                            const order::GradientRow<order::RowV1>& g) {
#pragma unroll
  for (Vector<T>& vector : vectors.at) {
    float value[Vector<T>::kCount];
#pragma unroll
    for (int i = 0; i < Vector<T>::kCount; ++i) {
      const float x = vector.get(i);
      const float d = (scaled ? x * g.inverse_temperature : x) - g.max;
      const float p = order::exp_of_number(d) * g.scale;
      const float k = entropy ? order::fma(g.slope, d, g.offset) : g.offset;
      float result = k * p;
      if constexpr (scaled) result = result * g.inverse_temperature;
      value[i] = clamped && d < order::RowV1::kCut ? 0.0f : result;
    }
    vector.set(value);
  }
}

template <bool entropy, class T, int count>
__device__ __forceinline__ void gradient_of(Vectors<T, count>& vectors,
                                            const order::GradientRow<order::RowV1>& g) {
  if constexpr (entropy)  // a slope of 0 would make +0 of an offset of -0
    if (!g.has_slope) return gradient_of<false>(vectors, g);
  if (lowest_of(vectors) * g.inverse_temperature - g.max < order::RowV1::kCut)
    gradient_of<entropy, true, true>(vectors, g);
  else if (g.inverse_temperature != 1.0f)
    gradient_of<entropy, true, false>(vectors, g);
  else
    gradient_of<entropy, false, false>(vectors, g);
}

}  // namespace samebits::cuda
