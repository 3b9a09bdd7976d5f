// Launches of the ends of grad_hidden and grad_bias, and of the zeros in padding.
#include "cuda/kernel/head_bias.cuh"
#include "cuda/kernel/head_hidden.cuh"
#include "cuda/launch/head_weight.h"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

using order::BFloat16, order::Float16;

std::int64_t bias_ctas(std::int64_t columns) { return (columns + kBiasThreads - 1) / kBiasThreads; }

template <class Bits>
void clear(void* data, std::int64_t first, std::int64_t rows, std::int64_t stride, std::int64_t width,
           const core::DeviceCall& call) {
  const std::int64_t parts = (width + kWeightThreads - 1) / kWeightThreads;
  launch("clear_rows", clear_rows<Bits>, {rows * parts, kWeightThreads}, call,
         static_cast<Bits*>(data) + first * stride, stride, width, parts);
}

}  // namespace

template <class Row>
void finish_head_hidden(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                        const std::int64_t* counts, const core::DeviceCall& call) {
  const auto run = [&](auto* kernel) {
    launch("finish_hidden", kernel, {problem.head.logp.rows, kHiddenThreads}, call, problem.head, at, counts,
           problem.grad_hidden);
  };
  if constexpr (sizeof(typename Row::Real) == 8)
    return run(finish_hidden<double, Row>);
  else
    switch (problem.head.hidden.dtype) {
      case DType::kFloat32: return run(finish_hidden<float, Row>);
      case DType::kBFloat16: return run(finish_hidden<BFloat16, Row>);
      default: return run(finish_hidden<Float16, Row>);
    }
}

void finish_held_hidden(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                        const HeldSums& sums, bool beside_kernel_ahead, const core::DeviceCall& call) {
  const core::LinearLogpProblem& head = problem.head;
  const auto run = [&]<int width>(auto* kernel) {
    constexpr std::int64_t kColumns = std::int64_t{kHeldThreads} * width;
    const std::int64_t parts = (head.hidden_size + kColumns - 1) / kColumns;
    LaunchShape shape{head.logp.rows * parts, kHeldThreads};
    shape.early = beside_kernel_ahead;
    launch("finish_held_hidden", kernel, shape, call, head, at, sums, problem.grad_hidden,
           static_cast<int>(parts), beside_kernel_ahead);
  };
  const bool bf16 = head.hidden.dtype == DType::kBFloat16;
  if (head.hidden_size % 4 == 0)
    run.template operator()<4>(bf16 ? finish_held_hidden<BFloat16, 4> : finish_held_hidden<Float16, 4>);
  else
    run.template operator()<2>(bf16 ? finish_held_hidden<BFloat16, 2> : finish_held_hidden<Float16, 2>);
}

template <class Row>
void add_head_bias(const core::LinearLogpProblem& head, const HeadGradientRows<Row>& at,
                   const PositionRange& range, const PColumns& from, typename Row::Real* partial,
                   typename Row::Real* total, const core::DeviceCall& call) {
  using Real = typename Row::Real;
  const auto run = [&]<class Stored>(Stored) {
    const std::int64_t segments = (range.rows + kBiasSegment<Real> - 1) / kBiasSegment<Real>;
    const std::int64_t parts = bias_ctas(from.columns);
    launch("bias_segments", bias_segments<Row, Stored>, {segments * parts, kBiasThreads}, call,
           BiasColumns<Stored>{static_cast<const Stored*>(from.p), from.p_stride, from.columns}, range, at,
           partial, parts);
  };
  if constexpr (sizeof(Real) == 8)
    run(double{});
  else if (!head.tc16)
    run(float{});
  else
    head.hidden.dtype == DType::kBFloat16 ? run(BFloat16{}) : run(Float16{});
  launch("add_bias_segments", add_bias_segments<Real>, {bias_ctas(from.columns), kBiasThreads}, call,
         static_cast<const Real*>(partial), from.columns, range, total);
}

template <class Row>
void finish_head_bias(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                      const TargetRuns& targets, const PColumns& from, const typename Row::Real* total,
                      const core::DeviceCall& call) {
  using Real = typename Row::Real;
  TargetOnes terms{};
  if constexpr (sizeof(Real) == 4) terms.y = at.y;
  launch("finish_bias", finish_bias<Real>, {bias_ctas(from.columns), kBiasThreads}, call, total, from.columns,
         targets.runs, terms, LongRuns<float>{static_cast<float*>(targets.long_bias), 1}, from.column,
         static_cast<char*>(problem.grad_bias), problem.head.hidden.dtype, problem.grad_bias_stride);
}

void clear_head_padding(const core::LinearLogpGradient& problem, const core::DeviceCall& call) {
  const std::int64_t first = problem.head.logp.vocab, rows = problem.weight_rows - first;
  const auto clear_columns = [&](void* data, std::int64_t stride, std::int64_t width) {
    switch (dtype_size(problem.head.hidden.dtype)) {
      case 2: return clear<std::uint16_t>(data, first, rows, stride, width, call);
      case 4: return clear<std::uint32_t>(data, first, rows, stride, width, call);
      default: return clear<std::uint64_t>(data, first, rows, stride, width, call);
    }
  };
  if (problem.grad_weight != nullptr && !problem.accumulate)
    clear_columns(problem.grad_weight, problem.grad_weight_stride, problem.head.hidden_size);
  if (problem.grad_bias != nullptr) clear_columns(problem.grad_bias, problem.grad_bias_stride, 1);
}

#define SAMEBITS_HEAD_FINISH(Row)                                                                 \
  template void finish_head_hidden(const core::LinearLogpGradient&, const HeadGradientRows<Row>&, \
                                   const std::int64_t*, const core::DeviceCall&);                 \
  template void add_head_bias(const core::LinearLogpProblem&, const HeadGradientRows<Row>&,       \
                              const PositionRange&, const PColumns&, Row::Real*, Row::Real*,      \
                              const core::DeviceCall&);                                           \
  template void finish_head_bias(const core::LinearLogpGradient&, const HeadGradientRows<Row>&,   \
                                 const TargetRuns&, const PColumns&, const Row::Real*,            \
                                 const core::DeviceCall&)
SAMEBITS_HEAD_FINISH(order::RowV1);
SAMEBITS_HEAD_FINISH(order::Row64V1);

}  // namespace samebits::cuda
