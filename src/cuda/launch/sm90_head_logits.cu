// The logits of a head on SM90a, in the epilogue: statistics of their blocks, or P.
#include "cuda/launch/sm90_head_operands.h"

namespace samebits::cuda {
namespace {

template <Sm90Use use, class T, class Epilogue>
void launch_logits(const char* name, const Sm90HeadOperands<T>& head, const GatheredRows& hidden,
                   const PositionRange& range, std::int64_t column, std::int64_t columns,
                   const Epilogue& epilogue, const core::DeviceCall& call) {
  const Sm90Choice& choice = head.choice_of(use, range);
  ProductShape shape = head.shape_of(range, columns, head.shape.hidden_size);
  shape.group = choice.group;
  with_form<use, T, false, false>(choice.form, [&]<class Tile>() {
    launch_product<Tile>(name, head.gathered(hidden, range), head.weight_rows(column, columns), shape,
                         epilogue, call);
  });
}

}  // namespace

template <class T>
void sm90_block_stats(const Sm90HeadOperands<T>& head, const StatsTask& task, const core::DeviceCall& call) {
  const auto run = [&]<Sm90Use use>(const char* name, const auto& epilogue) {
    launch_logits<use>(name, head, task.hidden, task.range, 0, head.shape.vocab, epilogue, call);
  };
  const auto statistics = [&]<bool entropy>() {
    BlockStatistics<T, entropy> epilogue{};
    epilogue.columns = head.columns_of(0, head.shape.vocab);
    epilogue.inputs = head.inputs_of(task.range, task.inverse_tau, task.target);
    epilogue.max = task.max;
    epilogue.sum = task.sum;
    epilogue.entropy_sum = task.entropy_sum;
    epilogue.stride = task.range.rows;
    epilogue.target_logit = task.target_logit + task.range.first;
    return epilogue;
  };
  constexpr Sm90Use kAlone = Sm90Use::kStatistics;
  if (task.entropy_sum != nullptr)
    return run.template operator()<kAlone>("sm90_block_stats", statistics.template operator()<true>());
  if constexpr (kIsBFloat16<T>)
    if (task.p_rows > 0) {
      SaveP<T> epilogue{statistics.template operator()<false>(), {}, task.reference + task.range.first};
      epilogue.p.p = static_cast<T*>(task.p);
      epilogue.p.p_stride = task.p_stride;
      epilogue.p.rows_of_p = static_cast<int>(task.p_rows);
      epilogue.p.columns = epilogue.statistics.columns;
      epilogue.p.inputs = epilogue.statistics.inputs;
      return run.template operator()<Sm90Use::kSaveP>("sm90_save_p", epilogue);
    }
  run.template operator()<kAlone>("sm90_block_stats", statistics.template operator()<false>());
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
