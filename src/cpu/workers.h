// Spreads numbered items over workers that each own a slice of the workspace.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/backend.h"
#include "order/fp_env.h"

namespace samebits::cpu {

// Runs `work(item)` for every item below `items`, where `work` is what `make_worker(slice)` gives; `slice` is
// `slice_bytes` (a multiple of 64) of workspace, which is aligned to 64. Items go to whichever worker is free.
template <class MakeWorker>
void run_workers(const core::Executor& executor, std::int64_t items, int workers, std::byte* workspace,
                 std::size_t slice_bytes, MakeWorker&& make_worker) {
  std::atomic<std::int64_t> next{0};
  executor.run(std::min<std::int64_t>(workers, items), [&](std::int64_t begin, std::int64_t end) {
    const order::FpEnvGuard guard;
    for (std::int64_t worker = begin; worker < end; ++worker) {
      auto work = make_worker(workspace + worker * slice_bytes);
      for (;;) {
        const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
        if (item >= items) return;
        work(item);
      }
    }
  });
}

}  // namespace samebits::cpu
