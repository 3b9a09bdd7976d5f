#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#include <unistd.h>

namespace samebits::core {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One parallel call. Tasks are taken one at a time from a shared counter.
struct Job {
  TaskBody body;
  void* argument;
  std::int64_t tasks;
  std::atomic<std::int64_t> next{0};

  void work() {
    for (std::int64_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1))
      body(argument, task, task + 1);
  }
};

class Pool {
 public:
  void run(int threads, std::int64_t tasks, TaskBody body, void* argument) {
    std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return body(argument, 0, tasks);
    Job job{body, argument, tasks};
    const int helpers = static_cast<int>(std::min<std::int64_t>(threads, tasks)) - 1;
    while (started_ < helpers) {
      const int id = started_;
      try {
        std::thread([this, id] { loop(id); }).detach();
      } catch (const std::system_error&) {
        break;  // fewer threads, same bits
      }
      ++started_;
    }
    const int used = std::min(helpers, started_);
    job_ = &job;
    active_.store(used, std::memory_order_relaxed);
    ticket_.store(pack(++generation_, used), std::memory_order_release);
    ticket_.notify_all();
    job.work();
    for (int spin = 0; active_.load(std::memory_order_acquire) != 0; ++spin)
      spin < kSpins ? relax() : std::this_thread::yield();
  }

 private:
  // A worker keeps looking for a while after its last job: waking a sleeping thread costs more than a decode row.
  static constexpr int kSpins = 10000;

  static std::uint64_t pack(std::uint32_t generation, int used) {
    return (static_cast<std::uint64_t>(generation) << 32) | static_cast<std::uint32_t>(used);
  }

  void loop(int id) {
    std::uint64_t seen = 0;
    // A thread started for a job must not miss it: `seen` starts at the ticket before any.
    for (;;) {
      std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
      const int spins = id + 1 < hardware_threads() ? kSpins : 0;
      for (int spin = 0; ticket == seen && spin < spins; ++spin) {
        relax();
        ticket = ticket_.load(std::memory_order_acquire);
      }
      if (ticket == seen) {
        ticket_.wait(seen, std::memory_order_acquire);
        continue;
      }
      seen = ticket;
      // Only threads counted in the ticket may touch the job; the caller waits for exactly these.
      if (id < static_cast<int>(ticket & 0xffffffffu)) {
        job_->work();
        active_.fetch_sub(1, std::memory_order_release);
      }
    }
  }

  std::mutex busy_;
  int started_ = 0;
  std::uint32_t generation_ = 0;
  Job* job_ = nullptr;
  std::atomic<int> active_{0};
  std::atomic<std::uint64_t> ticket_{0};
};

// Never destroyed, so that threads may outlive static destruction; a forked child starts a fresh one.
Pool& pool() {
  static std::atomic<Pool*> instance{nullptr};
  static std::atomic<pid_t> owner{0};
  static std::mutex making;
  const pid_t self = getpid();
  Pool* current = instance.load(std::memory_order_acquire);
  if (current != nullptr && owner.load(std::memory_order_relaxed) == self) return *current;
  std::lock_guard lock(making);
  if (instance.load() == nullptr || owner.load() != self) {
    owner.store(self);
    instance.store(new Pool, std::memory_order_release);
  }
  return *instance.load();
}

int count_threads() {
  if (const char* text = std::getenv("SAMEBITS_NUM_THREADS")) {
    const int asked = std::atoi(text);
    if (asked > 0) return asked;
  }
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

int hardware_threads() {
  static const int count = count_threads();
  return count;
}

ParallelFor pool_parallel_for(int threads) {
  return {[](void* state, std::int64_t tasks, TaskBody body, void* argument) {
            pool().run(static_cast<int>(reinterpret_cast<std::intptr_t>(state)), tasks, body, argument);
          },
          reinterpret_cast<void*>(static_cast<std::intptr_t>(threads))};
}

}  // namespace samebits::core
