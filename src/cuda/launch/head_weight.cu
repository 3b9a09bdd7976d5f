#include "cuda/launch/head_weight.h"

#include "cuda/kernel/head_weight.cuh"
#include "cuda/launch/launch.h"
#include "cuda/launch/segment_sum.h"

namespace samebits::cuda {
namespace {

using order::BFloat16, order::Float16;

constexpr int kWide = 4;  // elements at a time

bool multiple(const core::RowIndex& index, std::int64_t of) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(index.rank); ++i)
    if (index.strides[i] % of != 0) return false;
  return true;
}
bool aligned(const void* data, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
}

// Whether rows of hidden, of the total and of grad_weight may be read and written four elements at a time.
bool wide_rows(const core::LinearLogpGradient& problem) {
  const core::LinearLogpProblem& head = problem.head;
  const std::int64_t element = dtype_size(head.hidden.dtype);
  return head.hidden_size % kWide == 0 && (head.hidden_stride == 1 || head.hidden_size == 1) &&
         aligned(head.hidden.data, kWide * element) && multiple(head.hidden.index, kWide) &&
         problem.grad_weight_stride % kWide == 0 &&
         aligned(problem.grad_weight, problem.accumulate ? 16 : kWide * element);
}

template <class T, int width>
TargetTerms<T, width> terms_of(const core::LinearLogpProblem& head,
                               const HeadGradientRows<order::RowV1>& at) {
  return {head.hidden, head.hidden_stride, at.list.row, at.y};
}

// `body(T{})` with the type of the operands.
template <class Body>
void with_operand_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32: return body(float{});
    case DType::kBFloat16: return body(BFloat16{});
    default: return body(Float16{});
  }
}

}  // namespace

bool even_rows(const core::LinearLogpGradient& problem) {
  return problem.grad_weight_stride % 2 == 0 &&
         aligned(problem.grad_weight, problem.accumulate ? 8 : 2 * dtype_size(problem.head.hidden.dtype));
}

template <>
void fill_head_x(const core::LinearLogpProblem& head, const HeadGradientRows<order::RowV1>& at,
                 const PositionRange& range, void* x, const core::DeviceCall& call) {
  with_operand_type(head.hidden.dtype, [&]<class T>(T) {
    const auto run = [&]<class Stored>(Stored) {
      launch("fill_x", fill_x<T, Stored>, behind((range.rows + kXWarps - 1) / kXWarps, 32 * kXWarps), call,
             head, at, range, static_cast<Stored*>(x), gathered_stride(head.hidden_size));
    };
    if constexpr (sizeof(T) == 2)
      if (head.tc16) return run(T{});
    run(float{});
  });
}

template <>
void fill_head_x(const core::LinearLogpProblem& head, const HeadGradientRows<order::Row64V1>& at,
                 const PositionRange& range, void* x, const core::DeviceCall& call) {
  gather_hidden(head, at.list, range, x, call);
}

void sum_long_targets(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                      const TargetRuns& targets, const core::DeviceCall& call) {
  const core::LinearLogpProblem& head = problem.head;
  if (problem.grad_weight != nullptr)
    with_operand_type(head.hidden.dtype, [&]<class T>(T) {
      const auto sum = [&](const auto& terms) {
        launch_long_runs(terms, targets.runs, head.hidden_size, targets.long_weight, call);
      };
      wide_rows(problem) ? sum(terms_of<T, kWide>(head, at)) : sum(terms_of<T, 1>(head, at));
    });
  if (problem.grad_bias != nullptr)
    launch_long_runs(TargetOnes{at.y}, targets.runs, 1, targets.long_bias, call);
}

WeightFinish weight_finish(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                           const TargetRuns& targets, std::int64_t column) {
  const core::LinearLogpProblem& head = problem.head;
  WeightFinish finish;
  const std::int64_t element = dtype_size(problem.accumulate ? DType::kFloat32 : head.hidden.dtype);
  finish.out = static_cast<std::byte*>(problem.grad_weight) + column * problem.grad_weight_stride * element;
  finish.stride = problem.grad_weight_stride;
  finish.accumulate = problem.accumulate;
  finish.out_in_chunks =
      aligned(finish.out, 16) && finish.stride * element % 16 == 0 && head.hidden_size * element % 16 == 0;
  finish.column = column;
  finish.scalars = at.scalars;
  finish.run = targets.runs.run + column;
  finish.order = targets.runs.order;
  finish.long_runs = {static_cast<float*>(targets.long_weight), head.hidden_size};
  finish.hidden = head.hidden;
  finish.hidden_stride = head.hidden_stride;
  finish.hidden_in_pairs =
      head.hidden_stride == 1 && aligned(head.hidden.data, 4) && multiple(head.hidden.index, 2);
  finish.hidden_in_chunks =
      head.hidden_stride == 1 && aligned(head.hidden.data, 16) && multiple(head.hidden.index, 8);
  finish.row = at.list.row;
  finish.y = at.y;
  return finish;
}

template <>
void finish_head_weight(const core::LinearLogpGradient& problem, const HeadGradientRows<order::RowV1>& at,
                        const TargetRuns& targets, const float* total, std::int64_t first, std::int64_t rows,
                        const core::DeviceCall& call) {
  const core::LinearLogpProblem& head = problem.head;
  const std::int64_t size = head.hidden_size;
  const WeightRows to{problem.grad_weight, problem.grad_weight_stride, first};
  const LongRuns<float> long_runs{static_cast<float*>(targets.long_weight), size};
  with_operand_type(head.hidden.dtype, [&]<class T>(T) {
    const auto run = [&]<int width>(std::integral_constant<int, width>) {
      const std::int64_t parts = (size + kWeightThreads * width - 1) / (kWeightThreads * width);
      const auto kernel =
          problem.accumulate ? finish_weight<T, float, width, true> : finish_weight<T, T, width, false>;
      launch("finish_weight", kernel, {rows * parts, kWeightThreads}, call, total, size,
             terms_of<T, width>(head, at), targets.runs, long_runs,
             static_cast<const HeadScalars*>(at.scalars), to, parts);
    };
    wide_rows(problem) ? run(std::integral_constant<int, kWide>()) : run(std::integral_constant<int, 1>());
  });
}

template <>
void finish_head_weight(const core::LinearLogpGradient& problem, const HeadGradientRows<order::Row64V1>&,
                        const TargetRuns&, const double* total, std::int64_t first, std::int64_t rows,
                        const core::DeviceCall& call) {
  const std::int64_t size = problem.head.hidden_size, parts = (size + kWeightThreads - 1) / kWeightThreads;
  launch("finish_weight_64", problem.accumulate ? finish_weight_64<true> : finish_weight_64<false>,
         {rows * parts, kWeightThreads}, call, total, size,
         WeightRows{problem.grad_weight, problem.grad_weight_stride, first}, parts);
}

}  // namespace samebits::cuda
