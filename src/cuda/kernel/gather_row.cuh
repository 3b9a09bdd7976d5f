// A row of hidden as it is, by one warp.
#pragma once

#include <cstdint>

namespace samebits::cuda {

// `size` elements from `from` on (null: none), +0 up to `out_stride` of them. `Bits` is a word of the size of an element.
template <class Bits>
__device__ __forceinline__ void gather_row(const Bits* from, std::int64_t hidden_stride, std::int64_t size,
                                           Bits* to, std::int64_t out_stride) {
  constexpr int kWords = 16 / static_cast<int>(sizeof(Bits));
  const int lane = threadIdx.x % 32;
  std::int64_t k = 0;
  if (from != nullptr) {
    if (hidden_stride == 1 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
      // Several under way: with few rows there is no other warp to wait with.
      constexpr int kAhead = 4;
      for (std::int64_t v = lane; v < size / kWords; v += 32 * kAhead) {
        uint4 words[kAhead];
#pragma unroll
        for (int a = 0; a < kAhead; ++a)
          if (v + 32 * a < size / kWords) words[a] = reinterpret_cast<const uint4*>(from)[v + 32 * a];
#pragma unroll
        for (int a = 0; a < kAhead; ++a)
          if (v + 32 * a < size / kWords) reinterpret_cast<uint4*>(to)[v + 32 * a] = words[a];
      }
      k = size / kWords * kWords;
    }
    for (std::int64_t at = k + lane; at < size; at += 32) to[at] = from[at * hidden_stride];
    k = size;
  }
  for (std::int64_t at = k + lane; at < out_stride; at += 32) to[at] = 0;
}

}  // namespace samebits::cuda
