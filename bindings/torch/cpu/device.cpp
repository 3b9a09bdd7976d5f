// CPU: memory in huge pages where that pays, torch's own threads.
#include "../device.h"

#include <torch/csrc/stable/ops.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace samebits::torch_binding {
namespace {

// A fresh large tensor is one page fault per 4 KiB as it is written, which costs a gradient of 64 x 131072 floats
// 20 ms where writing it takes 3. Huge pages, where the system offers them on request, take 512 times fewer.
constexpr std::int64_t kHugeBytes = std::int64_t{4} << 20;
void advise_huge_pages(void* data, std::int64_t bytes) {
#if defined(__linux__)
  constexpr std::uintptr_t kPage = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (address + static_cast<std::uintptr_t>(bytes)) / kPage * kPage;
  // A wish: its refusal changes nothing.
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}

void run_on_torch_threads(void*, std::int64_t tasks, TaskBody body, void* argument) {
  torch::stable::parallel_for(0, tasks, 1,
                              [&](std::int64_t begin, std::int64_t end) { body(argument, begin, end); });
}

}  // namespace

// Every operand is on the CPU, or torch would have called the other library.
Device device_of(const Tensor&) { return {}; }

Tensor empty(std::span<const std::int64_t> shape, DType dtype, const Tensor&) {
  Tensor tensor = new_tensor(shape, dtype, aoti_torch_device_type_cpu(), 0);
  if (const std::int64_t bytes = tensor.numel() * dtype_size(dtype); bytes >= kHugeBytes)
    advise_huge_pages(tensor.mutable_data_ptr(), bytes);
  return tensor;
}

Call::Call(const std::string& backend, const Tensor& like) : like_(like) {
  context_.backend = backend;
  context_.threads = static_cast<int>(torch::stable::get_num_threads());
  context_.parallel_for = {run_on_torch_threads, nullptr};
}

void Call::reserve(std::size_t) {}

}  // namespace samebits::torch_binding
