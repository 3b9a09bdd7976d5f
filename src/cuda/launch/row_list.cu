#include "cuda/launch/row_list.h"

#include "core/logp_checks.h"
#include "cuda/kernel/row_list.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t ctas_for(std::int64_t count) { return (count + kThreads - 1) / kThreads; }

template <class Index>
void select(const ConstTensorView& list, const core::LogpProblem& problem, unsigned long long* words,
            const core::DeviceCall& call) {
  launch("select_rows", select_rows<Index>, {ctas_for(list.shape[0]), kThreads}, call,
         static_cast<const Index*>(list.data), list.shape[0], list.strides[0], problem.rows, words);
}

void raise_on_invalid(const core::LogpProblem& problem, const core::DeviceCall& call, void* memory) {
  auto* first = static_cast<unsigned long long*>(memory);
  const cudaStream_t stream = stream_of(call);
  check(cudaMemsetAsync(first, 0xff, sizeof *first, stream), "find_invalid");
  launch("find_invalid", find_invalid, {ctas_for(problem.rows), kThreads}, call, problem, first);
  std::uint64_t row = 0;
  check(cudaMemcpyAsync(&row, first, sizeof row, cudaMemcpyDeviceToHost, stream), "find_invalid");
  check(cudaStreamSynchronize(stream), "find_invalid");
  if (row == ~std::uint64_t{0}) return;
  const auto at = static_cast<std::int64_t>(row);
  const bool narrow = problem.targets.dtype == DType::kInt32;
  const void* from = narrow ? static_cast<const void*>(problem.targets.at<std::int32_t>(at))
                            : problem.targets.at<std::int64_t>(at);
  std::int64_t id = 0;
  check(cudaMemcpyAsync(&id, from, narrow ? 4 : 8, cudaMemcpyDeviceToHost, stream), "find_invalid");
  check(cudaStreamSynchronize(stream), "find_invalid");
  if (narrow) id = static_cast<std::int32_t>(id);
  core::raise_invalid_target(problem, at, id);
}

}  // namespace

std::size_t selection_bytes(const core::LogpProblem& problem, const core::DeviceCall& call) {
  return call.rows ? static_cast<std::size_t>((problem.rows + 63) / 64) * 8 : 0;
}

std::size_t with_row_list(const core::LogpProblem& problem, const core::DeviceCall& call, std::size_t bytes) {
  // One more piece holds the answer of find_invalid.
  return Scratch::rounded(selection_bytes(problem, call)) +
         (call.raise_on_invalid ? Scratch::rounded(8) : 0) + bytes;
}

void take_row_list(core::LogpProblem& problem, const core::DeviceCall& call, Scratch& scratch) {
  if (call.rows) {
    const std::size_t bytes = selection_bytes(problem, call);
    auto* words = static_cast<unsigned long long*>(scratch.take(bytes));
    check(cudaMemsetAsync(words, 0, bytes, stream_of(call)), "select_rows");
    if (call.rows.dtype == DType::kInt32)
      select<std::int32_t>(call.rows, problem, words, call);
    else
      select<std::int64_t>(call.rows, problem, words, call);
    problem.selected = reinterpret_cast<const std::uint64_t*>(words);
  }
  if (call.raise_on_invalid) raise_on_invalid(problem, call, scratch.take(8));
}

}  // namespace samebits::cuda
