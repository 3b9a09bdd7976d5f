// The library's own threads, for callers that bring none.
#pragma once

#include <samebits/context.h>

namespace samebits::core {

// Hardware threads this process may use (at least 1); SAMEBITS_NUM_THREADS overrides it.
int hardware_threads();

// A ParallelFor over a process-wide pool that uses up to `threads` threads, the caller among them.
// Threads are started at first need and kept; a call made while the pool is busy runs on its caller alone.
ParallelFor pool_parallel_for(int threads);

}  // namespace samebits::core
