// How a call is run: backend, threads, workspace. Nothing here can change a bit of a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace samebits {

/// A task body: handles the tasks [begin, end).
using TaskBody = void (*)(void* argument, std::int64_t begin, std::int64_t end);

/// Runs `tasks` independent tasks, split into ranges in any way, and returns when all are done.
/// Bodies do not throw. A binding injects its framework's own pool here.
struct ParallelFor {
  /// Function that runs them; null means the library's own pool.
  void (*run)(void* state, std::int64_t tasks, TaskBody body, void* argument) = nullptr;
  void* state = nullptr;  ///< handed to `run` untouched
};

/// Execution choices of one call. Default: best backend of this machine, all hardware threads.
struct ExecContext {
  /// "auto", or a backend forced by name ("avx512", "avx2", "neon", "scalar"; see backends()).
  /// An unknown or unavailable name raises and lists the choices.
  std::string_view backend = "auto";
  int threads = 0;                ///< at most this many at work, up to 4096; 0: as many as there are
  ParallelFor parallel_for = {};  ///< how tasks are spread; default: the library's own pool
  std::span<std::byte> workspace =
      {};                  ///< scratch memory; used when large enough, else one block is allocated
  void* stream = nullptr;  ///< CUDA stream (unused on the CPU)
};

}  // namespace samebits
