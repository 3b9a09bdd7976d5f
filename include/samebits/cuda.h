// NVIDIA GPUs: a library of its own (target samebits::samebits_cuda), which a program switches on.
#pragma once

namespace samebits::cuda {

/// Lets every operator that has CUDA kernels take views on DeviceType::kCuda. Call it once, before the first such
/// view; calling it again, from any thread, does no harm. Touches no device.
///
/// Such calls put their work on `ExecContext::stream` (a cudaStream_t; null is the default stream) of the device that
/// holds the operands, and return without waiting: they may be captured into a CUDA graph. `ExecContext::workspace` is
/// device memory there; without it, or when it is too small, scratch is taken from the device's memory pool in stream
/// order. Two things differ from the CPU: OnInvalid::kRaise waits for the device (and so cannot be captured), and a
/// per-row temperature that is not allowed makes its row NaN instead of raising.
void enable();

}  // namespace samebits::cuda
