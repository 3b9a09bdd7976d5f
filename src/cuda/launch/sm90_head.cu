// The SM90a engine of a linear log-probability: block statistics, P and both gradients in the epilogues of products.
#include "cuda/launch/sm90_head.h"

#include <algorithm>

#include "cuda/kernel/sm90_head.cuh"
#include "cuda/launch/sm90_product.h"
#include "order/dot.h"

namespace samebits::cuda {
namespace {

// Rows up to which one row tile is enough, and the cluster would only multiply nothing.
constexpr std::int64_t kFewRows = kTileRows;

template <class T>
class Sm90Head final : public HeadEngine {
 public:
  explicit Sm90Head(const HeadShape& shape) : shape_(shape) {}

  const char* name() const override { return "sm90"; }

  void block_stats(const StatsTask& task, const core::DeviceCall& call) override {
    const auto run = [&]<bool entropy, bool scaled, int cluster>() {
      BlockStatistics<T, entropy, scaled> epilogue{};
      epilogue.columns = columns_of(0, shape_.vocab);
      epilogue.inputs = inputs_of(task.range, task.inverse_tau, task.target);
      epilogue.max = task.max;
      epilogue.sum = task.sum;
      epilogue.entropy_sum = task.entropy_sum;
      epilogue.stride = task.range.rows;
      epilogue.target_logit = task.target_logit + task.range.first;
      launch_product<ProductTile<T, 256, false, false, cluster>>(
          "sm90_block_stats", gathered(task.hidden, task.range), weight_rows(0, shape_.vocab),
          shape_of(task.range, shape_.vocab, shape_.hidden_size), epilogue, call);
    };
    const auto with_cluster = [&]<bool entropy, bool scaled>() {
      task.range.rows <= kFewRows ? run.template operator()<entropy, scaled, 1>()
                                  : run.template operator()<entropy, scaled, 2>();
    };
    const auto with_temperature = [&]<bool entropy>() {
      task.inverse_tau == nullptr ? with_cluster.template operator()<entropy, false>()
                                  : with_cluster.template operator()<entropy, true>();
    };
    task.entropy_sum == nullptr ? with_temperature.template operator()<false>()
                                : with_temperature.template operator()<true>();
  }

  void fill_p(const PTask& task, const core::DeviceCall& call) override {
    const auto run = [&]<bool sloped, bool scaled, int cluster>() {
      StoreP<T, sloped, scaled> epilogue{};
      epilogue.out = tensor_map({task.p, shape_.dtype, task.columns, task.range.rows, task.p_stride}, 16);
      epilogue.columns = columns_of(task.column, task.columns);
      epilogue.inputs = inputs_of(task.range, task.inverse_tau, task.target);
      epilogue.p_rows = static_cast<const order::PRow*>(task.rows) + task.range.first;
      epilogue.column = task.column;
      launch_product<ProductTile<T, 256, false, false, cluster>>(
          "sm90_fill_p", gathered(task.hidden, task.range), weight_rows(task.column, task.columns),
          shape_of(task.range, task.columns, shape_.hidden_size), epilogue, call);
    };
    const auto with_cluster = [&]<bool sloped, bool scaled>() {
      task.range.rows <= kFewRows ? run.template operator()<sloped, scaled, 1>()
                                  : run.template operator()<sloped, scaled, 2>();
    };
    const auto with_temperature = [&]<bool sloped>() {
      task.inverse_tau == nullptr ? with_cluster.template operator()<sloped, false>()
                                  : with_cluster.template operator()<sloped, true>();
    };
    task.sloped ? with_temperature.template operator()<true>()
                : with_temperature.template operator()<false>();
  }

  void add_hidden(const HiddenTask& task, const core::DeviceCall& call) override {
    const std::int64_t first = task.range.first;
    const AddIntegers epilogue{reinterpret_cast<long long*>(task.counts + first * shape_.hidden_size),
                               shape_.hidden_size, static_cast<int>(shape_.hidden_size),
                               task.exponent + first, task.nan_row + first};
    launch_product<ProductTile<T, 192, false, true, 2>>(
        "sm90_add_hidden", {task.p, shape_.dtype, task.columns, task.range.rows, task.p_stride},
        weight_rows(task.column, task.columns), shape_of(task.range, shape_.hidden_size, task.columns),
        epilogue, call);
  }

  void add_weight(const WeightTask& task, const core::DeviceCall& call) override {
    const StoreSegment<T> epilogue{
        task.total, shape_.hidden_size, static_cast<int>(shape_.hidden_size), task.range.first == 0, nullptr,
        0};
    ProductShape shape = shape_of(task.range, shape_.hidden_size, task.range.rows);
    shape.rows = static_cast<int>(task.columns);
    shape.bounds_depth = true;
    launch_product<ProductTile<T, 192, true, true, 2>>(
        "sm90_add_weight", {task.p, shape_.dtype, task.columns, task.range.rows, task.p_stride},
        {task.x, shape_.dtype, shape_.hidden_size, task.range.rows, task.x_stride}, shape, epilogue, call);
  }

 private:
  HeadColumns<T> columns_of(std::int64_t column, std::int64_t columns) const {
    const T* bias = static_cast<const T*>(shape_.bias);
    return {bias == nullptr ? nullptr : bias + column * shape_.bias_stride, shape_.bias_stride,
            static_cast<int>(columns)};
  }

  static HeadRowInputs inputs_of(const PositionRange& range, const float* inverse_tau,
                                 const std::int64_t* target) {
    return {inverse_tau == nullptr ? nullptr : inverse_tau + range.first, target + range.first};
  }

  DenseMatrix gathered(const GatheredRows& hidden, const PositionRange& range) const {
    return {hidden.data, shape_.dtype, shape_.hidden_size, range.rows, hidden.stride};
  }

  // [columns, H], from `column` on.
  DenseMatrix weight_rows(std::int64_t column, std::int64_t columns) const {
    const core::Operand& weight = shape_.weight;
    return {static_cast<const T*>(weight.data) + column * weight.row_stride, shape_.dtype, shape_.hidden_size,
            columns, weight.row_stride};
  }

  static ProductShape shape_of(const PositionRange& range, std::int64_t columns, std::int64_t depth) {
    ProductShape shape;
    shape.rows = static_cast<int>(range.rows);
    shape.columns = static_cast<int>(columns);
    shape.depth = static_cast<int>(depth);
    shape.first = range.first;
    shape.count = range.count;
    return shape;
  }

  HeadShape shape_;
};

}  // namespace

std::string no_sm90_head(const HeadShape& shape, Device device) {
  if (!shape.tc16) return "computes tc16 alone";
  if (traits(device).major != 9)
    return "needs a GPU of compute capability 9.0, this one is " + traits(device).architecture;
  if (shape.hidden_size > order::kSegment)
    return "takes a hidden size of at most 8192, this one is " + std::to_string(shape.hidden_size);
  if (shape.hidden_size % 2 != 0)
    return "takes an even hidden size, this one is " + std::to_string(shape.hidden_size);
  if (shape.weight.column_stride != 1)
    return "needs a weight whose last axis is dense";
  const char* why = no_tensor_map(
      {shape.weight.data, shape.dtype, shape.hidden_size, shape.vocab, shape.weight.row_stride});
  return why == nullptr ? "" : "cannot read weight, which " + std::string(why);
}

std::unique_ptr<HeadEngine> make_sm90_head(const HeadShape& shape) {
  if (shape.dtype == DType::kBFloat16) return std::make_unique<Sm90Head<order::BFloat16>>(shape);
  return std::make_unique<Sm90Head<order::Float16>>(shape);
}

}  // namespace samebits::cuda
