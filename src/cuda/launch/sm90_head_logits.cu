// The logits of a head on SM90a, in the epilogue: statistics of their blocks, or P.
#include "cuda/launch/sm90_head_operands.h"

namespace samebits::cuda {
namespace {

template <class Tile, class T, class Epilogue>
void launch_tiles(const char* name, const Sm90HeadOperands<T>& head, const GatheredRows& hidden,
                  const PositionRange& range, std::int64_t column, std::int64_t columns,
                  const ProductShape& shape, const Epilogue& epilogue, const core::DeviceCall& call) {
  launch_product<Tile>(name, head.gathered(hidden, range), head.weight_rows(column, columns), shape, epilogue,
                       call);
}

template <Sm90Use use, class T, class Epilogue>
void launch_logits(const char* name, const Sm90HeadOperands<T>& head, const GatheredRows& hidden,
                   const PositionRange& range, std::int64_t column, std::int64_t columns,
                   const Epilogue& epilogue, const core::DeviceCall& call) {
  const Sm90Choice& choice = head.choice_of(use, range);
  ProductShape shape = head.shape_of(range, columns, head.shape.hidden_size);
  shape.group = choice.group;
  with_form<use, T, false, false>(choice.form, [&]<class Tile>() {
    launch_tiles<Tile>(name, head, hidden, range, column, columns, shape, epilogue, call);
  });
}

// The columns of as many whole waves of large tiles as there are, where the rest of them fits one wave of small tiles: a
// wave of large ones would leave most multiprocessors idle. 0: no such thing.
std::int64_t columns_of_whole_waves(const PositionRange& range, std::int64_t vocab,
                                    std::int64_t multiprocessors) {
  constexpr std::int64_t kLarge = 256, kSmall = 128, kPair = 2 * 192;
  if (range.rows <= kSmall || range.rows > kLarge) return 0;
  const std::int64_t wave = multiprocessors / 2 * kPair, whole = vocab / wave * wave;
  const std::int64_t small_tiles = (vocab - whole + kSmall - 1) / kSmall * (kLarge / kSmall);
  return small_tiles <= multiprocessors ? whole : 0;
}

// Of all columns; `epilogue_of(column, columns)` is that of a part of them.
template <Sm90Use use, class T, class EpilogueOf>
void launch_all_logits(const char* name, const Sm90HeadOperands<T>& head, const StatsTask& task,
                       const EpilogueOf& epilogue_of, const core::DeviceCall& call) {
  const std::int64_t vocab = head.shape.vocab;
  const std::int64_t whole = columns_of_whole_waves(task.range, vocab, traits(call.device).multiprocessors);
  if (whole == 0)
    return launch_logits<use>(name, head, task.hidden, task.range, 0, vocab, epilogue_of(0, vocab), call);
  const auto run = [&]<Sm90Form form>(std::int64_t column, std::int64_t columns) {
    if (columns == 0) return;
    ProductShape shape = head.shape_of(task.range, columns, head.shape.hidden_size);
    shape.group = 2;
    shape.beside_kernel_ahead = column > 0;
    launch_tiles<Sm90FormTile<T, false, false, form>>(name, head, task.hidden, task.range, column, columns,
                                                      shape, epilogue_of(column, columns), call);
  };
  run.template operator()<Sm90Form::k256x192>(0, whole);
  run.template operator()<Sm90Form::k128x128>(whole, vocab - whole);
}

}  // namespace

template <class T>
void sm90_block_stats(const Sm90HeadOperands<T>& head, const StatsTask& task, const core::DeviceCall& call) {
  const auto statistics = [&]<bool entropy>(std::int64_t column, std::int64_t columns) {
    const std::int64_t before = column / order::kBlock * task.range.rows;
    BlockStatistics<T, entropy> epilogue{};
    epilogue.columns = head.columns_of(column, columns);
    epilogue.first_column = static_cast<int>(column);
    epilogue.inputs = head.inputs_of(task.range, task.inverse_tau, task.target);
    epilogue.max = task.max + before;
    epilogue.sum = task.sum + before;
    if (entropy) epilogue.entropy_sum = task.entropy_sum + before;
    epilogue.stride = task.range.rows;
    epilogue.target_logit = task.target_logit + task.range.first;
    return epilogue;
  };
  const auto saving = [&](std::int64_t column, std::int64_t columns) {
    SaveP<T> epilogue{
        statistics.template operator()<false>(column, columns), {}, task.reference + task.range.first};
    epilogue.p.column = column;
    epilogue.p.p = static_cast<T*>(task.p) + column;
    epilogue.p.p_stride = task.p_stride;
    epilogue.p.rows_of_p = static_cast<int>(task.p_rows);
    epilogue.p.columns = epilogue.statistics.columns;
    epilogue.p.inputs = epilogue.statistics.inputs;
    return epilogue;
  };
  constexpr Sm90Use kAlone = Sm90Use::kStatistics;
  if (task.entropy_sum != nullptr)
    return launch_all_logits<kAlone>(
        "sm90_block_stats", head, task,
        [&](auto... part) { return statistics.template operator()<true>(part...); }, call);
  if constexpr (kIsBFloat16<T>)
    if (task.p_rows > 0) return launch_all_logits<Sm90Use::kSaveP>("sm90_save_p", head, task, saving, call);
  launch_all_logits<kAlone>(
      "sm90_block_stats", head, task,
      [&](auto... part) { return statistics.template operator()<false>(part...); }, call);
}

template <class T>
void sm90_fill_p(const Sm90HeadOperands<T>& head, const PTask& task, const core::DeviceCall& call) {
  const auto run = [&]<bool sloped, PWay way>() {
    constexpr bool scattered = way == PWay::kScattered;
    StoreP<T, sloped, way> epilogue{};
    if (!scattered)
      epilogue.out = tensor_map({task.p, head.shape.dtype, task.columns, task.range.rows, task.p_stride}, 16);
    epilogue.columns = head.columns_of(task.column, task.columns);
    epilogue.inputs = head.inputs_of(task.range, task.inverse_tau, task.target);
    epilogue.p_rows = static_cast<const order::PRow*>(task.rows) + task.range.first;
    epilogue.column = task.column;
    epilogue.p = static_cast<T*>(task.p);
    epilogue.p_stride = task.p_stride;
    epilogue.to = task.to;
    if constexpr (scattered)  // of few rows, most often none
      launch_product<Sm90FormTile<T, false, false, Sm90Form::k128x128>>(
          "sm90_fill_p", head.gathered(task.hidden, task.range), head.weight_rows(task.column, task.columns),
          head.shape_of(task.range, task.columns, head.shape.hidden_size), epilogue, call);
    else
      launch_logits<Sm90Use::kFillP>("sm90_fill_p", head, task.hidden, task.range, task.column, task.columns,
                                     epilogue, call);
  };
  if constexpr (kIsBFloat16<T>)
    if (task.to != nullptr) return run.template operator()<false, PWay::kScattered>();
  task.sloped ? run.template operator()<true, PWay::kCopied>()
              : run.template operator()<false, PWay::kCopied>();
}

template void sm90_block_stats(const Sm90HeadOperands<order::BFloat16>&, const StatsTask&,
                               const core::DeviceCall&);
template void sm90_block_stats(const Sm90HeadOperands<order::Float16>&, const StatsTask&,
                               const core::DeviceCall&);
template void sm90_fill_p(const Sm90HeadOperands<order::BFloat16>&, const PTask&, const core::DeviceCall&);
template void sm90_fill_p(const Sm90HeadOperands<order::Float16>&, const PTask&, const core::DeviceCall&);

}  // namespace samebits::cuda
