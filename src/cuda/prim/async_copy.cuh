// Copies from global to shared memory that do not pass through registers (SM80 and newer).
#pragma once

#include <cstdint>

namespace samebits::cuda {

// 16 bytes, both ends aligned to 16; kept out of L1, since every logit is read once.
__device__ __forceinline__ void copy16(void* shared, const void* global) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

// The first `bytes` (0 to 16) of them; the rest becomes zero and is not read.
__device__ __forceinline__ void copy16_partial(void* shared, const void* global, int bytes) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
}

// Waits for the copies of this thread.
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace samebits::cuda
