// Thread block clusters (SM90 and newer): CTAs that run at the same time and see each other's shared memory.
#pragma once

#include <cstdint>

namespace samebits::cuda {

// The number of the CTA's cluster in a grid of one dimension.
__device__ __forceinline__ int cluster_number() {
  int number = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
#endif
  return number;
}

// All threads of all CTAs of the cluster meet; what they wrote to shared memory before is seen after.
__device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The two halves of a meeting that orders nothing but initialised barriers.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The address in shared memory, as CTA `rank` of the cluster has it.
__device__ __forceinline__ std::uint32_t in_cta(std::uint32_t mine, int rank) {
  std::uint32_t theirs = mine;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"(rank));
#endif
  return theirs;
}

// Stores to an address of `in_cta`, and lets that CTA's barrier know.
__device__ __forceinline__ void send(std::uint32_t to, float value, std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
               "f"(value), "r"(barrier)
               : "memory");
#endif
}
__device__ __forceinline__ void send(std::uint32_t to, std::uint64_t value, std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
               "l"(value), "r"(barrier)
               : "memory");
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
