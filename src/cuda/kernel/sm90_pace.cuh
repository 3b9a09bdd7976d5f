// How the clusters of a product on SM90 stay together.
#pragma once

#include "cuda/kernel/sm90_tiles.cuh"

namespace samebits::cuda {

// Clusters that work at the same K find each other's operands in L2. In a long row of tiles they drift apart, and where what
// they read in the course of one tile is more than L2 holds, memory has to deliver it again and again. So each counts its
// stages, kStages at a time, and one that is ahead of the mean waits for the others: not for long, as they may be unable to
// start, and nothing but time depends on it.
class Pace {
 public:
  __device__ Pace(const ProductShape& shape, int rank)
      : progress_(rank == 0 ? shape.progress : nullptr), ahead_(shape.ahead) {}

  // Ahead of each stage.
  __device__ __forceinline__ void stage(int cluster) {
    if (progress_ == nullptr || ++stages_ % kStages != 0) return;
    const std::uint32_t clusters = gridDim.x / static_cast<unsigned>(cluster);
    add(1);
    const std::uint32_t wanted = static_cast<std::uint32_t>(stages_ / kStages - ahead_) * clusters;
    int tries = kTries;
    while (static_cast<int>(wanted - counted()) > 0)
      if (--tries == 0) {
        ++ahead_;  // one that cannot start, beside another kernel, is waited for ever more rarely
        break;
      }
  }
  // Nobody waits for one that has no more.
  __device__ __forceinline__ void end() const {
    if (progress_ != nullptr) add(std::uint32_t{1} << 22);
  }

 private:
  static constexpr int kStages = 16, kTries = 64;
  __device__ __forceinline__ void add(std::uint32_t count) const {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(progress_), "r"(count) : "memory");
  }
  __device__ __forceinline__ std::uint32_t counted() const {
    std::uint32_t count;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(progress_) : "memory");
    return count;
  }

  std::uint32_t* progress_;
  int ahead_, stages_ = 0;
};

}  // namespace samebits::cuda
