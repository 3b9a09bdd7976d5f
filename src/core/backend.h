// The table of backends: each room that computes offers entries, and a call picks one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <samebits/context.h>

#include "core/embedding_problem.h"
#include "core/linear_logp_gradient.h"
#include "core/logp_problem.h"
#include "core/matmul_problem.h"
#include "core/row_sum_problem.h"

namespace samebits::core {

// How a backend may spread its work.
struct Executor {
  int threads = 1;
  ParallelFor parallel_for = {};
  std::span<std::byte> workspace = {};  // at least what scratch_bytes said

  template <class F>
  void run(std::int64_t tasks, F&& body) const {
    auto call = [](void* argument, std::int64_t begin, std::int64_t end) {
      (*static_cast<std::remove_reference_t<F>*>(argument))(begin, end);
    };
    if (tasks <= 0) return;
    if (tasks == 1 || threads <= 1)
      call(&body, 0, tasks);
    else
      parallel_for.run(parallel_for.state, tasks, call, &body);
  }
};

struct Backend {
  const char* name;
  bool (*available)();
  const char* requirement;  // said when it is not available
  void (*logp_forward)(const LogpProblem&, const Executor&);
  void (*logp_backward)(const LogpProblem&, const Executor&);
  void (*probability)(const LogpProblem&, const Executor&);
  void (*row_sum)(const RowSumProblem&, const Executor&);
  void (*matmul)(const MatmulProblem&, const Executor&);
  void (*linear_logp_forward)(const LinearLogpProblem&, const Executor&);
  void (*linear_logp_backward)(const LinearLogpGradient&, const Executor&);
  std::size_t (*logp_scratch_bytes)(const LogpProblem&, int threads);
  std::size_t (*row_sum_scratch_bytes)(const RowSumProblem&, int threads);
  std::size_t (*matmul_scratch_bytes)(const MatmulProblem&, int threads);
  std::size_t (*linear_logp_scratch_bytes)(const LinearLogpProblem&, int threads);
  std::size_t (*linear_logp_backward_scratch_bytes)(const LinearLogpGradient&, int threads);
  void (*embedding_forward)(const EmbeddingProblem&, const Executor&);
  void (*embedding_backward)(const EmbeddingProblem&, const Executor&);
  std::size_t (*embedding_backward_scratch_bytes)(const EmbeddingProblem&, int threads);
};

// CPU backends of this build, fastest first. Defined by src/cpu.
std::span<const Backend> cpu_backends();

// The backend `name` asks for ("auto": SAMEBITS_FORCE_BACKEND, else the fastest available); throws Error.
const Backend& pick_backend(std::string_view name);

// Threads and parallel_for of a call: the context's, or the library's own pool.
Executor make_executor(const ExecContext& context);

}  // namespace samebits::core
