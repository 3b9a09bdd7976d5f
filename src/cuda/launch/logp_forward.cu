// Which forward kernel runs, and how its rows are cut into parts. No choice here can change a bit.
#include "cuda/kernel/logp_forward_tile.cuh"
#include "cuda/launch/launch.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

// CTAs that keep one multiprocessor busy; with fewer rows than that, rows are cut into parts.
constexpr int kCtasPerProcessor = 4;
// Blocks whose statistics a CTA keeps in shared memory at most; longer rows are cut in any case.
constexpr std::int64_t kMaxPartBlocks = 2048;
// Most scratch for statistics of cut rows; more rows than fit are done in turns.
constexpr std::int64_t kMaxStatsBytes = std::int64_t{64} << 20;

struct Plan {
  bool tile;  // logp_forward_tile, else logp_forward_any
  bool entropy;
  std::int64_t blocks;
  int parts, part_blocks;
  std::int64_t stats_bytes;  // of one row in global memory; 0 with one part
  std::int64_t rows_per_turn;
};

// A part is a multiple of this many blocks, and every warp of its CTA has some of them.
std::int64_t part_unit(bool tile) { return tile ? Tile<float>::kBlocks : kAnyWarps; }

Plan plan_of(const core::LogpProblem& problem, const core::DeviceCall& call) {
  Plan plan{};
  plan.tile = !problem.binary64 && aligned16(problem.logits);
  plan.entropy = problem.wants_entropy();
  plan.blocks = order::block_count(problem.vocab);
  const std::int64_t unit = part_unit(plan.tile);
  const std::int64_t wanted = std::int64_t{kCtasPerProcessor} * traits(call.device).multiprocessors;
  const std::int64_t smallest = plan.tile ? unit * kTileWarps : unit * 4;
  std::int64_t parts =
      std::min((wanted + problem.rows - 1) / problem.rows, (plan.blocks + smallest - 1) / smallest);
  parts = std::max({parts, (plan.blocks + kMaxPartBlocks - 1) / kMaxPartBlocks, std::int64_t{1}});
  plan.part_blocks = static_cast<int>(((plan.blocks + parts - 1) / parts + unit - 1) / unit * unit);
  plan.parts = static_cast<int>((plan.blocks + plan.part_blocks - 1) / plan.part_blocks);
  if (plan.parts > 1)
    plan.stats_bytes = problem.binary64 ? BlockStats<double>::bytes(plan.blocks, plan.entropy)
                                        : BlockStats<float>::bytes(plan.blocks, plan.entropy);
  plan.rows_per_turn = std::min(problem.rows, kMaxItems / plan.parts);
  if (plan.parts > 1)
    plan.rows_per_turn =
        std::min(plan.rows_per_turn, std::max<std::int64_t>(kMaxStatsBytes / plan.stats_bytes, 1));
  return plan;
}

std::size_t stats_bytes(const Plan& plan) {
  return static_cast<std::size_t>(plan.rows_per_turn * plan.stats_bytes);
}
std::size_t counter_bytes(const Plan& plan) {
  return plan.parts > 1 ? static_cast<std::size_t>(plan.rows_per_turn) * sizeof(unsigned) : 0;
}

using Kernel = void (*)(core::LogpProblem, RowSplit, PartScratch);

template <class T>
Kernel tile_kernel(bool scaled, bool entropy) {
  if (entropy) return logp_forward_tile<T, true, true>;
  return scaled ? logp_forward_tile<T, true, false> : logp_forward_tile<T, false, false>;
}

struct Choice {
  const char* name;
  Kernel kernel;
  int threads, shared_bytes;
};

Choice choose(const core::LogpProblem& problem, const Plan& plan) {
  const int stats =
      static_cast<int>(problem.binary64 ? BlockStats<double>::bytes(plan.part_blocks, plan.entropy)
                                        : BlockStats<float>::bytes(plan.part_blocks, plan.entropy));
  if (!plan.tile)
    return {"logp_forward_any",
            problem.binary64 ? logp_forward_any<order::Row64V1> : logp_forward_any<order::RowV1>,
            32 * kAnyWarps, stats};
  const bool scaled = problem.row_temperature || problem.temperature != 1.0;
  const auto choice = [&](Kernel kernel, int tile_bytes) {
    return Choice{"logp_forward_tile", kernel, 32 * kTileWarps, kTileWarps * tile_bytes + stats};
  };
  switch (problem.dtype) {
    case DType::kFloat32: return choice(tile_kernel<float>(scaled, plan.entropy), Tile<float>::kSharedBytes);
    case DType::kFloat16:
      return choice(tile_kernel<order::Float16>(scaled, plan.entropy), Tile<order::Float16>::kSharedBytes);
    default:
      return choice(tile_kernel<order::BFloat16>(scaled, plan.entropy), Tile<order::BFloat16>::kSharedBytes);
  }
}

}  // namespace

std::size_t logp_scratch_bytes(const core::LogpProblem& problem, const core::DeviceCall& call) {
  if (problem.rows == 0) return 0;
  // The caller's problem may not say yet whether entropy is wanted, or how logits are aligned: room for the most.
  std::size_t most = 0;
  for (const std::uintptr_t address : {8, 16}) {
    core::LogpProblem larger = problem;
    larger.logits.data = reinterpret_cast<const void*>(address);
    larger.row_entropy_sum = &larger;
    const Plan plan = plan_of(larger, call);
    most = std::max(most, Scratch::rounded(stats_bytes(plan)) + Scratch::rounded(counter_bytes(plan)));
  }
  return Scratch::padded(with_row_list(problem, call, most));
}

void logp_forward(core::LogpProblem problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const Plan plan = plan_of(problem, call);
  Scratch scratch(call,
                  with_row_list(problem, call,
                                Scratch::rounded(stats_bytes(plan)) + Scratch::rounded(counter_bytes(plan))));
  take_row_list(problem, call, scratch);
  PartScratch parts;
  parts.stats = scratch.take(stats_bytes(plan));
  parts.finished = static_cast<unsigned*>(scratch.take(counter_bytes(plan)));

  const Choice choice = choose(problem, plan);
  in_ranges(problem.rows, plan.rows_per_turn, [&](std::int64_t first, std::int64_t rows) {
    if (plan.parts > 1)
      check(cudaMemsetAsync(parts.finished, 0, counter_bytes(plan), stream_of(call)), choice.name);
    launch(choice.name, choice.kernel, rows * plan.parts, choice.threads, choice.shared_bytes, call, problem,
           RowSplit{first, plan.parts, plan.part_blocks}, parts);
  });
}

}  // namespace samebits::cuda
