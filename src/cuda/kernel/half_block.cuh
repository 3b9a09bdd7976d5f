// Half a block in the registers of one lane, and the sums of the whole block with the lane that holds the other half.
//
// Lane l < 16 of a warp holds the chunks j (8 columns each) with j mod 4 = 0 or 1 of block l, lane l + 16 those with
// j mod 4 = 2 or 3. So a lane adds a[c][q] for its two q by itself, in the order of CONTRACT section 1, step 4.
#pragma once

#include "cuda/kernel/tile_copy.cuh"
#include "cuda/prim/pair.cuh"
#include "cuda/prim/reduce.cuh"

namespace samebits::cuda {

// 32-bit words of half a block, [q of this half][k = j / 4][8 columns].
template <class T>
struct HalfBlock {
  static constexpr int kWords = 8 * static_cast<int>(sizeof(T)) / 4;
  std::uint32_t words[2][4][kWords];

  __device__ __forceinline__ void load(const char* block, int half, int shift) {
#pragma unroll
    for (int q = 0; q < 2; ++q)
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int w = 0; w < kWords; w += 4) {
          const uint4 v = *(reinterpret_cast<const uint4*>(chunk(block, half, q, k)) + w / 4);
          words[q][k][w] = v.x;
          words[q][k][w + 1] = v.y;
          words[q][k][w + 2] = v.z;
          words[q][k][w + 3] = v.w;
        }
    if constexpr (sizeof(T) == 2) {
      if (shift == 0) return;
      // Elements begin in the middle of a word.
#pragma unroll
      for (int q = 0; q < 2; ++q)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const std::uint32_t next =
              *reinterpret_cast<const std::uint32_t*>(chunk(block, half, q, k) + 4 * kWords);
#pragma unroll
          for (int w = 0; w < kWords; ++w)
            words[q][k][w] = __byte_perm(words[q][k][w], w + 1 < kWords ? words[q][k][w + 1] : next, 0x5432);
        }
    }
  }
  // The same of 16-bit columns, from the address in shared memory of a half that begins on a boundary of 16 bytes.
  __device__ __forceinline__ void load(std::uint32_t half) {
    static_assert(kWords == 4);
#pragma unroll
    for (int q = 0; q < 2; ++q)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        std::uint32_t (&w)[kWords] = words[q][k];
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(half + 64 * k + 16 * q)
                     : "memory");
      }
  }

  __device__ __forceinline__ static const char* chunk(const char* block, int half, int q, int k) {
    return block + (4 * k + 2 * half + q) * 8 * static_cast<int>(sizeof(T));
  }

  // Column c of chunk (q, k), converted exactly.
  __device__ __forceinline__ float value(int q, int k, int c) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[q][k][c]);
    } else {
      return pair_value<T>(words[q][k][c / 2], c % 2);
    }
  }
};

template <class T>
__device__ __forceinline__ T minus_infinity() {
  return order::round_to<T>(-order::infinity<float>());
}

struct Extremes {
  float max;  // NaN if any column is
  float min;  // of the columns that are no NaN
};

// Largest and smallest logit of a block; both of its lanes get them.
template <class T>
__device__ __forceinline__ Extremes extremes(const HalfBlock<T>& half) {
  Extremes result;
  if constexpr (sizeof(T) == 4) {
    result.max = result.min = half.value(0, 0, 0);
#pragma unroll
    for (int i = 1; i < 64; ++i) {
      const float x = half.value(i / 32, i / 8 % 4, i % 8);
      result.max = max_nan(result.max, x);
      result.min = fminf(result.min, x);
    }
    result.max = max_nan(result.max, shuffle_xor(result.max, 16));
    result.min = fminf(result.min, shuffle_xor(result.min, 16));
  } else {
    std::uint32_t high = half.words[0][0][0], low = high;
#pragma unroll
    for (int i = 1; i < 32; ++i) {
      const std::uint32_t x = half.words[i / 16][i / 4 % 4][i % 4];
      high = pair_max<T>(high, x);
      low = pair_min<T>(low, x);
    }
    high = pair_max<T>(high, shuffle_xor(high, 16));
    low = pair_min<T>(low, shuffle_xor(low, 16));
    result = {max_nan(pair_value<T>(high, 0), pair_value<T>(high, 1)),
              fminf(pair_value<T>(low, 0), pair_value<T>(low, 1))};
  }
  return result;
}

// One value per c of each half's own sums a[c][q] + a[c][q + 1]; the sum over the block in every lane.
__device__ __forceinline__ float combine_halves(const float (&own)[8], bool second_half) {
  float sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sent = second_half ? own[i] : own[4 + i];
    const float kept = second_half ? own[4 + i] : own[i];
    sum[i] = kept + shuffle_xor(sent, 16);
  }
  const float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  return total + shuffle_xor(total, 16);
}

struct BlockSums {
  float s, u;
};

// s_b and u_b, given m_b. `clamped`: some d may lie below the cut.
template <class T, bool scaled, bool entropy, bool clamped>
__device__ __forceinline__ BlockSums block_sums(const HalfBlock<T>& half, float it, float m,
                                                bool second_half) {
  float s[8], u[8];
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    float lane_s[8] = {}, lane_u[8] = {};
    const auto add = [&](int k, int c) {
      float z = half.value(q, k, c);
      if constexpr (scaled) z = z * it;
      float d = z - m;
      if constexpr (clamped) d = fmaxf(d, order::RowV1::kCut);
      const float term = order::exp_of_number(d);
      lane_s[c] = k == 0 ? term : lane_s[c] + term;  // +0 + term is term
      if constexpr (entropy) lane_u[c] = order::fma(term, -d, lane_u[c]);
    };
    // Column by column takes fewest registers; with an entropy, chunk by chunk is faster.
    constexpr bool kByChunk = entropy && sizeof(T) == 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) add(kByChunk ? i / 8 : i % 4, kByChunk ? i % 8 : i / 4);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      s[c] = q == 0 ? lane_s[c] : s[c] + lane_s[c];
      if constexpr (entropy) u[c] = q == 0 ? lane_u[c] : u[c] + lane_u[c];
    }
  }
  BlockSums sums{combine_halves(s, second_half), 0};
  if constexpr (entropy) sums.u = combine_halves(u, second_half);
  return sums;
}

}  // namespace samebits::cuda
