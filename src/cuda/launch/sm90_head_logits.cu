// The logits of a head on SM90a, in the epilogue: statistics of their blocks, or P.
#include "cuda/launch/sm90_head_operands.h"

namespace samebits::cuda {
namespace {

// Rows up to which one row tile is enough, and a cluster would only multiply nothing.
constexpr std::int64_t kFewRows = kTileRows;

}  // namespace

template <class T>
void sm90_block_stats(const Sm90HeadOperands<T>& head, const StatsTask& task, const core::DeviceCall& call) {
  const auto run = [&]<int cluster>(const char* name, const auto& epilogue) {
    launch_product<Sm90Tile<T, false, false, cluster>>(
        name, head.gathered(task.hidden, task.range), head.weight_rows(0, head.shape.vocab),
        head.shape_of(task.range, head.shape.vocab, head.shape.hidden_size), epilogue, call);
  };
  const auto with_cluster = [&](const char* name, const auto& epilogue) {
    task.range.rows <= kFewRows ? run.template operator()<1>(name, epilogue)
                                : run.template operator()<2>(name, epilogue);
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
  if (task.entropy_sum != nullptr)
    return with_cluster("sm90_block_stats", statistics.template operator()<true>());
  if constexpr (kIsBFloat16<T>)
    if (task.p_rows > 0) {
      SaveP<T> epilogue{statistics.template operator()<false>(), {}, task.reference + task.range.first};
      epilogue.p.out = tensor_map({task.p, head.shape.dtype, head.shape.vocab, task.p_rows, task.p_stride}, 16);
      epilogue.p.columns = epilogue.statistics.columns;
      epilogue.p.inputs = epilogue.statistics.inputs;
      return with_cluster("sm90_save_p", epilogue);
    }
  with_cluster("sm90_block_stats", statistics.template operator()<false>());
}

template <class T>
void sm90_fill_p(const Sm90HeadOperands<T>& head, const PTask& task, const core::DeviceCall& call) {
  const auto run = [&]<bool sloped, bool scattered, int cluster>() {
    StoreP<T, sloped, scattered> epilogue{};
    if (!scattered)
      epilogue.out = tensor_map({task.p, head.shape.dtype, task.columns, task.range.rows, task.p_stride}, 16);
    epilogue.columns = head.columns_of(task.column, task.columns);
    epilogue.inputs = head.inputs_of(task.range, task.inverse_tau, task.target);
    epilogue.p_rows = static_cast<const order::PRow*>(task.rows) + task.range.first;
    epilogue.column = task.column;
    epilogue.p = static_cast<T*>(task.p);
    epilogue.p_stride = task.p_stride;
    epilogue.to = task.to;
    launch_product<Sm90Tile<T, false, false, cluster>>(
        "sm90_fill_p", head.gathered(task.hidden, task.range), head.weight_rows(task.column, task.columns),
        head.shape_of(task.range, task.columns, head.shape.hidden_size), epilogue, call);
  };
  const auto with_cluster = [&]<bool sloped>() {
    task.range.rows <= kFewRows ? run.template operator()<sloped, false, 1>()
                                : run.template operator()<sloped, false, 2>();
  };
  if constexpr (kIsBFloat16<T>)
    if (task.to != nullptr) return run.template operator()<false, true, 1>();
  task.sloped ? with_cluster.template operator()<true>() : with_cluster.template operator()<false>();
}

template void sm90_block_stats(const Sm90HeadOperands<order::BFloat16>&, const StatsTask&,
                               const core::DeviceCall&);
template void sm90_block_stats(const Sm90HeadOperands<order::Float16>&, const StatsTask&,
                               const core::DeviceCall&);
template void sm90_fill_p(const Sm90HeadOperands<order::BFloat16>&, const PTask&, const core::DeviceCall&);
template void sm90_fill_p(const Sm90HeadOperands<order::Float16>&, const PTask&, const core::DeviceCall&);

}  // namespace samebits::cuda
