// embedding from C++: bytes per second of a lookup (rows read and written) and of the gradient (upstream read, table
// written), for ids that differ and for one id that all positions share.
#include <benchmark/benchmark.h>
#include <samebits/samebits.h>

#include <cstdint>
#include <vector>

namespace {

using samebits::ConstTensorView;
using samebits::DType;
using samebits::TensorView;

constexpr std::int64_t kVocab = 32768, kHidden = 1024;

// Table, ids and upstream of one call; bf16 patterns of small numbers.
struct Tensors {
  explicit Tensors(std::int64_t tokens, bool shared)
      : table(kVocab * kHidden, 0x3c00), rows(tokens * kHidden, 0x3c00) {
    for (std::int64_t at = 0; at < tokens; ++at) ids.push_back(shared ? 7 : at * 40503 % kVocab);
  }

  ConstTensorView id_view() const {
    return {ids.data(), DType::kInt64, {static_cast<std::int64_t>(ids.size())}};
  }

  std::vector<std::uint16_t> table, rows;
  std::vector<std::int64_t> ids;
};

samebits::ExecContext threads_of(const benchmark::State& state) {
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(2));
  return context;
}

void embedding_forward(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  Tensors tensors(tokens, state.range(1) != 0);
  const ConstTensorView weight(tensors.table.data(), DType::kBFloat16, {kVocab, kHidden});
  const TensorView out(tensors.rows.data(), DType::kBFloat16, {tokens, kHidden});
  for (auto _ : state) samebits::embedding_forward(tensors.id_view(), weight, out, {}, threads_of(state));
  state.SetBytesProcessed(state.iterations() * 2 * 2 * tokens * kHidden);
}

void embedding_backward(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  Tensors tensors(tokens, state.range(1) != 0);
  const ConstTensorView upstream(tensors.rows.data(), DType::kBFloat16, {tokens, kHidden});
  samebits::EmbeddingGradients gradients;
  gradients.weight = TensorView(tensors.table.data(), DType::kBFloat16, {kVocab, kHidden});
  for (auto _ : state)
    samebits::embedding_backward(tensors.id_view(), upstream, gradients, {}, threads_of(state));
  state.SetBytesProcessed(state.iterations() * 2 * (tokens + kVocab) * kHidden);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "shared", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  bench->ArgsProduct({{64, 4096}, {0, 1}, {1, 2}});
}

BENCHMARK(embedding_forward)->Apply(sizes);
BENCHMARK(embedding_backward)->Apply(sizes);

}  // namespace
