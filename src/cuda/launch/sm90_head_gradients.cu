// The products of a head's gradient on SM90a.
#include <algorithm>

#include "cuda/kernel/sm90_hidden.cuh"
#include "cuda/kernel/sm90_weight.cuh"
#include "cuda/kernel/sm90_weight_copy.cuh"
#include "cuda/launch/sm90_head_operands.h"
#include "order/dot.h"

namespace samebits::cuda {
namespace {

// Rows with which the end of a tile of grad_weight takes longer than its product.
constexpr std::int64_t kFewRowsOfWeight = 512;
// With so few, add_hidden takes all of memory, and CTAs that start late beside it keep the others waiting.
constexpr std::int64_t kFewestRowsBeside = 128;
// Columns of a part with which the end of a tile of grad_hidden takes longer than its product.
constexpr std::int32_t kFewColumnsOfHidden = 4096;
// With more, what clusters read in the course of a tile is more than L2 holds, so that they have to keep pace.
constexpr std::int64_t kRowsInL2 = 1024;

}  // namespace

template <class T>
void sm90_add_hidden(const Sm90HeadOperands<T>& head, Sm90Counters& counters, const HiddenTask& task,
                     const core::DeviceCall& call) {
  const std::int64_t first = task.range.first, size = head.shape.hidden_size;
  ProductShape shape = head.shape_of(task.range, size, task.columns);
  const auto run = [&]<Sm90Use use>(const auto& epilogue) {
    const Sm90Choice& choice = head.choice_of(use, task.range);
    shape.group = choice.group;
    with_form<use, T, false, true>(choice.form, [&]<class Tile>() {
      launch_product<Tile>("sm90_add_hidden",
                           {task.p, head.shape.dtype, task.columns, task.range.rows, task.p_stride},
                           head.weight_rows(task.column, task.columns), shape, epilogue, call);
    });
  };
  for (std::size_t done = 0; done < task.segments.size(); done += static_cast<std::size_t>(shape.parts)) {
    shape.parts = static_cast<int>(std::min<std::size_t>(kMostParts, task.segments.size() - done));
    std::copy_n(task.segments.begin() + static_cast<std::ptrdiff_t>(done), shape.parts, shape.part);
    if (shape.rows > kRowsInL2) shape.progress = counters.next(call);
    if (task.sums == nullptr) {
      // Long ones first, so that every cluster has as many of them as the others.
      Segment* const end = shape.part + shape.parts;
      Segment* const first_short = std::stable_partition(
          shape.part, end, [](const Segment& part) { return part.columns > kFewColumnsOfHidden; });
      const auto add = [&]<bool has_short>() {
        run.template operator()<Sm90Use::kAddHidden>(AddIntegers<has_short>{
            reinterpret_cast<long long*>(task.counts + first * size), size, static_cast<int>(size),
            task.exponent + first, task.nan_row + first, static_cast<int>(first_short - shape.part)});
      };
      first_short == end ? add.template operator()<false>() : add.template operator()<true>();
      continue;
    }
    const HoldSums sums{task.sums + static_cast<std::int64_t>(done) * task.sums_stride + first * size,
                        task.sums_stride,
                        size,
                        static_cast<int>(size),
                        task.nan_row + first,
                        task.largest};
    run.template operator()<Sm90Use::kHoldHidden>(sums);
  }
}

template <class T>
bool sm90_add_weight(const Sm90HeadOperands<T>& head, Sm90Counters& counters, const WeightTask& task,
                     const core::DeviceCall& call) {
  const std::int64_t size = head.shape.hidden_size;
  const bool first = task.range.first == 0;
  ProductShape shape = head.shape_of(task.range, size, task.range.rows);
  shape.rows = static_cast<int>(task.columns);
  shape.bounds_depth = true;
  if (task.range.rows > order::kSegment)
    in_ranges(task.range.rows, order::kSegment, [&](std::int64_t begin, std::int64_t rows) {
      shape.part[shape.parts++] = {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(rows)};
      shape.together = shape.parts;
    });
  shape.beside_kernel_ahead = task.beside_hidden && task.range.rows > kFewestRowsBeside;
  // Beside another kernel clusters start when they can, and those that are first have the most to do.
  if (shape.depth > kRowsInL2 && !shape.beside_kernel_ahead) shape.progress = counters.next(call);
  shape.ahead = 0;
  const Sm90Choice& choice = head.choice_of(Sm90Use::kAddWeight, task.range);
  shape.group = choice.group;
  const auto run_tiles = [&]<class Tile>(const auto& epilogue) {
    launch_product<Tile>(
        "sm90_add_weight", {task.p, head.shape.dtype, task.columns, task.range.rows, task.p_stride},
        {task.x, head.shape.dtype, size, task.range.rows, task.x_stride}, shape, epilogue, call);
  };
  const auto run = [&](const auto& epilogue) {
    with_form<Sm90Use::kAddWeight, T, true, true>(
        choice.form, [&]<class Tile>() { run_tiles.template operator()<Tile>(epilogue); });
    return false;
  };
  if (task.finish == nullptr)
    return run(StoreSegment<T, true>{task.total, size, static_cast<int>(size), first, nullptr, 0});
  const WeightFinish& finish = *task.finish;
  if (finish.accumulate) return run(FinishWeight<T, true>{task.total, size, first, finish});
  const DenseMatrix out{finish.out, head.shape.dtype, size, task.columns, finish.stride};
  const bool few = first && task.range.rows <= kFewRowsOfWeight;
  if (!few || !finish.out_in_chunks || no_tensor_map(out) != nullptr)
    return run(FinishWeight<T, false>{task.total, size, first, finish});
  const CopyWeight<T> epilogue{task.total, size, finish.run, finish.scalars, tensor_map(out, 16)};
  run_tiles.template operator()<Sm90FormTile<T, true, true, Sm90Form::k128x192>>(epilogue);
  finish_target_rows(finish, head.shape.dtype, task.total, task.range.rows, task.columns, size, call);
  return true;
}

std::int64_t sm90_finish_elements(std::int64_t rows, std::int64_t columns, std::int64_t size,
                                  std::int64_t multiprocessors) {
  static_assert(forms_of(Sm90Use::kAddWeight).size() == 1);
  using Tile = Sm90FormTile<order::BFloat16, true, true, forms_of(Sm90Use::kAddWeight)[0]>;
  constexpr std::int64_t kClusterRows = Tile::kRows * Tile::kCluster;
  const std::int64_t clusters =
      (columns + kClusterRows - 1) / kClusterRows * ((size + Tile::kColumns - 1) / Tile::kColumns);
  const std::int64_t room = std::min(clusters * Tile::kCluster, multiprocessors) * kConsumers *
                            FinishWeight<order::BFloat16, false>::kRoomElements;
  return rows <= kFewRowsOfWeight ? std::max(room, rows * size) : room;
}

template void sm90_add_hidden(const Sm90HeadOperands<order::BFloat16>&, Sm90Counters&, const HiddenTask&,
                              const core::DeviceCall&);
template void sm90_add_hidden(const Sm90HeadOperands<order::Float16>&, Sm90Counters&, const HiddenTask&,
                              const core::DeviceCall&);
template bool sm90_add_weight(const Sm90HeadOperands<order::BFloat16>&, Sm90Counters&, const WeightTask&,
                              const core::DeviceCall&);
template bool sm90_add_weight(const Sm90HeadOperands<order::Float16>&, Sm90Counters&, const WeightTask&,
                              const core::DeviceCall&);

}  // namespace samebits::cuda
