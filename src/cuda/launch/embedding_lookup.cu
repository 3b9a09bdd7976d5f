// Launch of the embedding's lookup.
#include "cuda/kernel/embedding_lookup.cuh"

#include <cstring>

#include "cuda/launch/embedding_items.h"
#include "cuda/launch/operators.h"
#include "order/number.h"

namespace samebits::cuda {
namespace {

// What rows of invalid ids are filled with: the dtype's NaN, repeated, or +0.
template <class Word>
Word filling(const core::EmbeddingProblem& problem) {
  std::uint64_t half = 0;
  if (problem.nan_on_invalid) {
    constexpr std::uint64_t kTwice = 0x100000001ull, kFourTimes = 0x1000100010001ull;
    const std::int64_t element = dtype_size(problem.dtype);
    half = element == 8   ? order::kNanBits64
           : element == 4 ? kTwice * order::kNanBits32
                          : kFourTimes * order::kNanBits16;
  }
  const std::uint64_t halves[] = {half, half};
  Word word;
  std::memcpy(&word, halves, sizeof word);
  return word;
}

template <class Word>
void run_lookup(const core::EmbeddingProblem& problem, const core::DeviceCall& call) {
  const std::int64_t element = dtype_size(problem.dtype);
  const auto words = problem.columns * element / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t step = sizeof(Word) == 16 ? 1 : problem.weight.column_stride;
  over_items({0, problem.rows, words}, [&](const ItemSplit& split, std::int64_t ctas) {
    launch("embedding_forward", embedding_forward_rows<Word>, {ctas, kEmbeddingThreads}, call, problem, split,
           filling<Word>(problem), step);
  });
}

void raise_on_invalid(const core::EmbeddingProblem& problem, const core::DeviceCall& call) {
  Scratch scratch(call, Scratch::rounded(8));
  auto* first = static_cast<unsigned long long*>(scratch.take(8));
  const cudaStream_t stream = stream_of(call);
  check(cudaMemsetAsync(first, 0xff, sizeof *first, stream), "find_invalid_id");
  constexpr int kThreads = 256;
  launch("find_invalid_id", find_invalid_id, {(problem.rows + kThreads - 1) / kThreads, kThreads}, call,
         problem, first);
  std::uint64_t row = 0;
  check(cudaMemcpyAsync(&row, first, sizeof row, cudaMemcpyDeviceToHost, stream), "find_invalid_id");
  check(cudaStreamSynchronize(stream), "find_invalid_id");
  if (row == ~std::uint64_t{0}) return;
  const auto at = static_cast<std::int64_t>(row);
  const bool narrow = problem.ids.dtype == DType::kInt32;
  const void* from =
      narrow ? static_cast<const void*>(problem.ids.at<std::int32_t>(at)) : problem.ids.at<std::int64_t>(at);
  std::int64_t id = 0;
  check(cudaMemcpyAsync(&id, from, narrow ? 4 : 8, cudaMemcpyDeviceToHost, stream), "find_invalid_id");
  check(cudaStreamSynchronize(stream), "find_invalid_id");
  core::raise_invalid_id(problem, at, narrow ? static_cast<std::int32_t>(id) : id);
}

}  // namespace

void embedding_forward(const core::EmbeddingProblem& problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  if (call.raise_on_invalid) raise_on_invalid(problem, call);
  const std::int64_t element = dtype_size(problem.dtype);
  if (problem.weight.column_stride == 1 && problem.columns * element % 16 == 0 &&
      problem.weight.row_stride * element % 16 == 0 && aligned(problem.weight.data) &&
      aligned_rows(problem.out))
    return run_lookup<uint4>(problem, call);
  switch (element) {
    case 2: return run_lookup<std::uint16_t>(problem, call);
    case 4: return run_lookup<std::uint32_t>(problem, call);
    default: return run_lookup<std::uint64_t>(problem, call);
  }
}

}  // namespace samebits::cuda
