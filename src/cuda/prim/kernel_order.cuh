// Kernels of a stream that start before the one ahead of them has ended (SM90 and newer).
#pragma once

namespace samebits::cuda {

// Until the kernel ahead has ended and what it wrote is seen. At once where this one was not launched early.
__device__ __forceinline__ void wait_for_kernel_ahead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel behind may start as soon as all CTAs have said this or ended, if it was launched early.
__device__ __forceinline__ void let_kernel_behind_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Both, of a short kernel in a row of them: its launch takes place while the one ahead runs. By all CTAs, before all else.
__device__ __forceinline__ void follow_kernel_ahead() {
  wait_for_kernel_ahead();
  let_kernel_behind_start();
}

}  // namespace samebits::cuda
