// Which forward kernel runs.
#include <algorithm>

#include "cuda/kernel/logp_forward_64.cuh"
#include "cuda/kernel/logp_forward_pairs.cuh"
#include "cuda/kernel/logp_forward_spread.cuh"
#include "cuda/kernel/logp_forward_tile.cuh"
#include "cuda/launch/forward_few.h"
#include "cuda/launch/forward_plan.h"
#include "cuda/launch/logp_backward.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

using Kernel = void (*)(core::LogpProblem, RowSplit, PartScratch);

template <class T>
Kernel tile_kernel(bool scaled, bool entropy) {
  if (entropy) return logp_forward_tile<T, true, true>;
  return scaled ? logp_forward_tile<T, true, false> : logp_forward_tile<T, false, false>;
}

template <class T>
Kernel pairs_kernel(bool scaled, bool entropy) {
  if (entropy) return logp_forward_pairs<T, true, true>;
  return scaled ? logp_forward_pairs<T, true, false> : logp_forward_pairs<T, false, false>;
}

template <int warps>
Kernel spread_kernel(bool scaled, bool entropy) {
  if (entropy) return logp_forward_spread<true, true, warps>;
  return scaled ? logp_forward_spread<true, false, warps> : logp_forward_spread<false, false, warps>;
}

struct Choice {
  const char* name;
  Kernel kernel;
  int shared_bytes;  // beside those of the statistics
};

Choice choose(const core::LogpProblem& problem, const ForwardPlan& plan) {
  if (problem.binary64) return {"logp_forward_64", logp_forward_64, 0};
  const bool scaled = problem.row_temperature || problem.temperature != 1.0;
  if (plan.spread) {
    const bool wide = plan.warps == kSpreadWarps;
    return {"logp_forward_spread",
            (wide ? spread_kernel<kSpreadWarps> : spread_kernel<kSpreadWarpsShort>)(scaled, plan.entropy), 0};
  }
  const auto choice = [&]<class T>(T) -> Choice {
    const int bytes = plan.warps * Tile<T>::kSharedBytes;
    if constexpr (sizeof(T) == 2)
      if (plan.pairs) return {"logp_forward_pairs", pairs_kernel<T>(scaled, plan.entropy), bytes};
    return {"logp_forward_tile", tile_kernel<T>(scaled, plan.entropy), bytes};
  };
  switch (problem.dtype) {
    case DType::kFloat32: return choice(float{});
    case DType::kFloat16: return choice(order::Float16{});
    default: return choice(order::BFloat16{});
  }
}

bool has_clusters() {
  return has_sm90_code("logp_forward_64", reinterpret_cast<const void*>(logp_forward_64));
}

ForwardPlan plan_of(const core::LogpProblem& problem, const core::DeviceCall& call) {
  return plan_forward(problem, traits(call.device), has_clusters());
}

std::size_t scratch_bytes(const ForwardPlan& plan) {
  return Scratch::rounded(plan.stats_bytes) + Scratch::rounded(plan.counter_bytes);
}

}  // namespace

std::size_t logp_scratch_bytes(const core::LogpProblem& problem, const core::DeviceCall& call) {
  if (problem.rows == 0) return 0;
  const DeviceGuard guard(call.device);
  // Of forward and of backward, which use the same; it may not be known yet whether entropy is wanted.
  core::LogpProblem larger = problem;
  larger.row_entropy_sum = &larger;
  const std::size_t most = std::max(scratch_bytes(plan_of(larger, call)), gradient_rows_bytes(problem));
  return Scratch::padded(with_row_list(problem, call, most));
}

void logp_forward(core::LogpProblem problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const ForwardPlan plan = plan_of(problem, call);
  Scratch scratch(call, with_row_list(problem, call, scratch_bytes(plan)));
  take_row_list(problem, call, scratch);
  if (has_clusters() && forward_few(problem, call)) return;
  PartScratch parts;
  parts.stats = scratch.take(plan.stats_bytes);
  parts.finished = static_cast<unsigned*>(scratch.take(plan.counter_bytes));

  const Choice choice = choose(problem, plan);
  const auto start = [&](const RowSplit& split, bool early) {
    const std::int64_t stats = problem.binary64 ? BlockStats<double>::bytes(split.part_blocks, plan.entropy)
                                                : BlockStats<float>::bytes(split.part_blocks, plan.entropy);
    LaunchShape shape{split.rows * split.parts, 32 * plan.warps,
                      choice.shared_bytes + static_cast<int>(stats), plan.cluster ? split.parts : 1};
    shape.early = early;
    launch(choice.name, choice.kernel, shape, call, problem, split, parts);
  };
  in_ranges(problem.rows - plan.last_rows, plan.rows_per_turn, [&](std::int64_t first, std::int64_t rows) {
    if (plan.counter_bytes > 0)
      check(cudaMemsetAsync(parts.finished, 0, plan.counter_bytes, stream_of(call)), choice.name);
    start({plan.last_rows + first, rows, plan.parts, plan.part_blocks}, false);
  });
  if (plan.last_rows > 0) start({0, plan.last_rows, 2, plan.last_part_blocks}, true);
}

}  // namespace samebits::cuda
