// Blocks spread over the lanes of a warp, 16 columns of fp32 or 32 of 16 bits each, and what a lane does with its part.
//
// A lane holds four vectors of 16 bytes, 32 columns apart: of each lane sum a[c][q] of CONTRACT section 1, step 4, either
// all terms or none.
#pragma once

#include "cuda/kernel/half_block.cuh"

namespace samebits::cuda {

// Every logit is read once.
__device__ __forceinline__ uint4 load_once(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

template <class T>
struct Spread {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));  // columns of a vector
  static constexpr int kLanes = order::kBlock / (4 * kCount);      // that share a block
  static constexpr int kBlocks = 32 / kLanes;                      // of a unit, which a warp holds
  static constexpr int kUnit = kBlocks * order::kBlock;
  static constexpr int kUnitBytes = kUnit * static_cast<int>(sizeof(T));
  static constexpr std::uint32_t kMissing =
      sizeof(T) == 4 ? 0xff800000u : (kIsBFloat16<T> ? 0xff80ff80u : 0xfc00fc00u);  // -inf

  uint4 vectors[4];

  // The lane's first column within the unit.
  __device__ static int column_of(int lane) { return lane / kLanes * order::kBlock + lane % kLanes * kCount; }
  __device__ __forceinline__ void miss(int k) {
    vectors[k] = make_uint4(kMissing, kMissing, kMissing, kMissing);
  }
  __device__ __forceinline__ float value(int k, int c) const {
    const std::uint32_t words[4] = {vectors[k].x, vectors[k].y, vectors[k].z, vectors[k].w};
    if constexpr (sizeof(T) == 4)
      return __uint_as_float(words[c]);
    else
      return pair_value<T>(words[c / 2], c % 2);
  }
};

// Largest logit of the block, in all of its lanes, and, for types of 16 bits, smallest one of the lane's.
template <class T>
__device__ __forceinline__ Extremes extremes(const Spread<T>& part) {
  Extremes result;
  if constexpr (sizeof(T) == 4) {
    result = {part.value(0, 0), -order::infinity<float>()};
#pragma unroll
    for (int i = 1; i < 16; ++i) result.max = max_nan(result.max, part.value(i / 4, i % 4));
    result.max = max_nan(result.max, shuffle_xor(result.max, 1));
    result.max = max_nan(result.max, shuffle_xor(result.max, 2));
    result.max = max_nan(result.max, shuffle_xor(result.max, 4));
  } else {
    std::uint32_t high = part.vectors[0].x, low = high;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint4 v = part.vectors[k];
      if (k > 0) high = pair_max<T>(high, v.x), low = pair_min<T>(low, v.x);
      high = pair_max<T>(high, v.y), low = pair_min<T>(low, v.y);
      high = pair_max<T>(high, v.z), low = pair_min<T>(low, v.z);
      high = pair_max<T>(high, v.w), low = pair_min<T>(low, v.w);
    }
    high = pair_max<T>(high, shuffle_xor(high, 1));
    high = pair_max<T>(high, shuffle_xor(high, 2));
    result = {max_nan(pair_value<T>(high, 0), pair_value<T>(high, 1)),
              fminf(pair_value<T>(low, 0), pair_value<T>(low, 1))};
  }
  return result;
}

// The block's sum from the lane's own a[c][q], one per column of a vector.
template <class T>
__device__ __forceinline__ float combine_spread(const float (&own)[Spread<T>::kCount], int lane) {
  // Lanes that differ in these bits hold the same c and another q.
  constexpr int kCount = Spread<T>::kCount, kLow = sizeof(T) == 4 ? 2 : 1, kHigh = 2 * kLow;
  const bool odd = (lane & kLow) != 0, upper = (lane & kHigh) != 0;
  float pair[kCount / 2];
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float sent = odd ? own[i] : own[kCount / 2 + i], kept = odd ? own[kCount / 2 + i] : own[i];
    pair[i] = kept + shuffle_xor(sent, kLow);
  }
  float all[kCount / 4];  // a[c]
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    const float sent = upper ? pair[i] : pair[kCount / 4 + i], kept = upper ? pair[kCount / 4 + i] : pair[i];
    all[i] = kept + shuffle_xor(sent, kHigh);
  }
  float total = all[0];
  if constexpr (kCount == 8) total = total + all[1];
  total = total + shuffle_xor(total, kHigh);
  total = total + shuffle_xor(total, kLow);
  if constexpr (kCount == 4) total = total + shuffle_xor(total, 1);
  return total;
}

// s_b and u_b, given m_b. `clamped`: some d may lie below the cut.
template <class T, bool scaled, bool entropy, bool clamped>
__device__ __forceinline__ BlockSums spread_sums(const Spread<T>& part, float it, float m, int lane) {
  float s[Spread<T>::kCount], u[Spread<T>::kCount];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int c = 0; c < Spread<T>::kCount; ++c) {
      float z = part.value(k, c);
      if constexpr (scaled) z = z * it;
      float d = z - m;
      if constexpr (clamped) d = fmaxf(d, order::RowV1::kCut);
      const float term = order::exp_of_number(d);
      s[c] = k == 0 ? term : s[c] + term;  // +0 + term is term
      if constexpr (entropy) u[c] = order::fma(term, -d, k == 0 ? 0.0f : u[c]);
    }
  }
  BlockSums sums{combine_spread<T>(s, lane), 0};
  if constexpr (entropy) sums.u = combine_spread<T>(u, lane);
  const bool empty = m == -order::infinity<float>();
  return {empty ? 0.0f : sums.s, empty ? 0.0f : sums.u};
}

}  // namespace samebits::cuda
