// A warp per block of 128 columns.
#pragma once

#include "cuda/prim/reduce.cuh"

namespace samebits::cuda {

// Warps of a CTA that works so.
inline constexpr int kBlockWarps = 8;

// Lane l of the warp holds the columns l, l + 32, l + 64, l + 96 of the block: lane 8q + c of the contract is l.
template <class Real>
__device__ __forceinline__ Real combine_lanes(Real lane) {
  lane = lane + shuffle_xor(lane, 8);
  lane = lane + shuffle_xor(lane, 16);
  lane = lane + shuffle_xor(lane, 1);
  lane = lane + shuffle_xor(lane, 2);
  return lane + shuffle_xor(lane, 4);
}

}  // namespace samebits::cuda
