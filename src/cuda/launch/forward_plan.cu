#include "cuda/launch/forward_plan.h"

#include <bit>

#include "cuda/kernel/block_warp.cuh"
#include "cuda/kernel/logp_forward_pairs.cuh"
#include "cuda/kernel/logp_forward_spread.cuh"

namespace samebits::cuda {
namespace {

// Blocks whose statistics a CTA keeps in shared memory at most (48 KiB of them); longer rows are cut in any case.
constexpr std::int64_t kMaxPartBlocks = 4096, kMaxPartBlocks64 = 2048;
// From so many tiles on rows of fp32 are long.
constexpr std::int64_t kLongRowTiles = 32;
// Most scratch for statistics of cut rows; more rows than fit are done in turns.
constexpr std::int64_t kMaxStatsBytes = std::int64_t{64} << 20;

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The largest power of two that is not larger.
std::int64_t power_of_two(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

// Warps that fill a multiprocessor, and those of a CTA where rows are many and where they are few.
struct Widths {
  int resident, many_rows, few_rows;
};
template <class T>
constexpr Widths kTileWidths = {kResidentWarps<T>, kTileWarps<T>, kMostTileWarps<T>};

bool is_short(const core::LogpProblem& problem) {
  return order::block_count(problem.vocab) < kLongRowTiles * Tile<float>::kBlocks;
}

bool is_scaled(const core::LogpProblem& problem) {
  return problem.row_temperature || problem.temperature != 1.0 || problem.wants_entropy();
}

// Whether all rows begin on boundaries of 16 bytes.
bool is_aligned(const core::LogpProblem& problem) {
  const std::int64_t count = 16 / dtype_size(problem.dtype);
  bool aligned = reinterpret_cast<std::uintptr_t>(problem.logits.data) % 16 == 0;
  const core::RowIndex& rows = problem.logits.index;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.rank); ++i)
    aligned = aligned && rows.strides[i] % count == 0;
  return aligned;
}

Widths widths_of(const core::LogpProblem& problem, const DeviceTraits& device) {
  if (problem.binary64) return {32, kBlockWarps, kBlockWarps};
  if (problem.dtype != DType::kFloat32) {
    Widths widths = kTileWidths<order::BFloat16>;
    if (device.major == 9 && is_aligned(problem) && !is_scaled(problem))
      widths.resident = kResidentWarpsPlainSm90;
    return widths;
  }
  Widths widths = kTileWidths<float>;
  if (device.major >= 10) widths = {kResidentWarps32Sm100, kTileWarps32Sm100, kTileWarps32Sm100};
  // Not every architecture has room for the tiles of a wide CTA and the statistics of a long part.
  const std::int64_t wide = std::int64_t{widths.few_rows} * Tile<float>::kSharedBytes +
                            BlockStats<float>::bytes(kMaxPartBlocks, true) +
                            static_cast<std::int64_t>(sizeof(FinishShared<order::RowV1>));
  if (wide > device.shared_bytes) widths.many_rows = widths.few_rows = 4;
  // Short rows leave warps of a wide CTA without a last tile.
  if (is_short(problem)) widths.many_rows = std::max(widths.many_rows / 2, 4);
  return widths;
}

// From so many tiles of each warp on halves of rows are worth a launch.
constexpr std::int64_t kLongEnough = 8;

// As many last rows as are left over for the last CTAs, if these are at most half of all; else two of each multiprocessor.
void cut_last_rows(ForwardPlan& plan, std::int64_t rows, std::int64_t blocks, const Widths& widths,
                   std::int64_t multiprocessors) {
  const std::int64_t at_once = multiprocessors * widths.resident / plan.warps, left = rows % at_once;
  const std::int64_t unit = Tile<float>::kBlocks;
  if (rows <= at_once || blocks < kLongEnough * unit * plan.warps) return;
  plan.last_rows = left < 2 * multiprocessors || left > at_once / 2 ? 2 * multiprocessors : left;
  plan.last_part_blocks = static_cast<int>(divided(divided(blocks, 2), unit) * unit);
}

}  // namespace

ForwardPlan plan_forward(const core::LogpProblem& problem, const DeviceTraits& device, bool clusters) {
  ForwardPlan plan{};
  plan.entropy = problem.wants_entropy();
  const std::int64_t blocks = order::block_count(problem.vocab);
  const Widths widths = widths_of(problem, device);
  const std::int64_t filling = std::int64_t{device.multiprocessors} * widths.resident;
  const bool few = problem.rows * kMaxCluster * widths.few_rows <= filling;
  plan.warps = few ? widths.few_rows : widths.many_rows;
  // A part is a multiple of the blocks that one warp takes at a time, and leaves no warp without any.
  const std::int64_t unit = problem.binary64 ? 1 : Tile<float>::kBlocks;
  const std::int64_t most_blocks = problem.binary64 ? kMaxPartBlocks64 : kMaxPartBlocks;
  const std::int64_t useful =
      std::min(divided(filling, plan.warps * problem.rows), divided(blocks, unit * plan.warps));
  const std::int64_t needed = divided(blocks, most_blocks);
  std::int64_t parts = std::max(useful, needed);
  plan.cluster = clusters && needed <= kMaxCluster;
  if (plan.cluster)  // a power of two of CTAs, the last ones perhaps without a block
    parts = std::clamp(power_of_two(few ? 2 * useful - 1 : useful), power_of_two(2 * needed - 1),
                       std::int64_t{kMaxCluster});
  plan.part_blocks = static_cast<int>(divided(divided(blocks, parts), unit) * unit);
  plan.parts = static_cast<int>(plan.cluster ? parts : divided(blocks, plan.part_blocks));
  plan.rows_per_turn = std::min(problem.rows, kMaxItems / plan.parts);
  const bool aligned = !problem.binary64 && is_aligned(problem), wide = problem.dtype == DType::kFloat32;
  plan.pairs = aligned && !wide && !few;
  plan.spread = plan.parts == 1 && wide && aligned && problem.vocab % Spread<float>::kCount == 0;
  if (plan.spread) plan.warps = is_short(problem) ? kSpreadWarpsShort : kSpreadWarps;
  if (plan.parts == 1 && clusters && !wide && !problem.binary64 && plan.rows_per_turn == problem.rows)
    cut_last_rows(plan, problem.rows, blocks, widths, device.multiprocessors);
  if (plan.parts == 1 || plan.cluster) return plan;

  const std::int64_t row_bytes = problem.binary64 ? BlockStats<double>::bytes(blocks, plan.entropy)
                                                  : BlockStats<float>::bytes(blocks, plan.entropy);
  plan.rows_per_turn = std::min(plan.rows_per_turn, std::max<std::int64_t>(kMaxStatsBytes / row_bytes, 1));
  plan.stats_bytes = static_cast<std::size_t>(plan.rows_per_turn * row_bytes);
  plan.counter_bytes = static_cast<std::size_t>(plan.rows_per_turn) * sizeof(unsigned);
  return plan;
}

}  // namespace samebits::cuda
