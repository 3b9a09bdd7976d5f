// Thread block clusters (SM90 and newer): CTAs that run at the same time and see each other's shared memory.
#pragma once

#include <cstdint>

namespace samebits::cuda {

// All threads of all CTAs of the cluster meet; what they wrote to shared memory before is seen after.
__device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// `mine`, an object in shared memory, as CTA `rank` of the cluster has it.
template <class T>
__device__ __forceinline__ T* of_cta(T* mine, int rank) {
#if __CUDA_ARCH__ >= 900
  std::uint64_t theirs;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(mine), "r"(rank));
  return reinterpret_cast<T*>(theirs);
#else
  (void)rank;
  return mine;
#endif
}

}  // namespace samebits::cuda
