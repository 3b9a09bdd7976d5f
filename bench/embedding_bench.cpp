// embedding from C++: bytes per second of a lookup (rows read and written) and of the gradient (upstream read, table
// written), for ids that differ and for one id that all positions share.
#include <benchmark/benchmark.h>
#include <samebits/samebits.h>

#include <cstdint>
#include <vector>

#include "options.h"

namespace {

using samebits::ConstTensorView;
using samebits::DType;
using samebits::TensorView;
using samebits::bench::named, samebits::bench::Options, samebits::bench::or_else, samebits::bench::Registered;

// Table, ids and upstream of one call; bf16 patterns of small numbers.
struct Tensors {
  Tensors(std::int64_t tokens, std::int64_t vocab, std::int64_t hidden, bool shared)
      : table(static_cast<std::size_t>(vocab * hidden), 0x3c00),
        rows(static_cast<std::size_t>(tokens * hidden), 0x3c00) {
    for (std::int64_t at = 0; at < tokens; ++at) ids.push_back((shared ? 7 : at * 40503) % vocab);
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

void embedding_forward(benchmark::State& state, std::int64_t vocab, std::int64_t hidden) {
  const std::int64_t tokens = state.range(0);
  Tensors tensors(tokens, vocab, hidden, state.range(1) != 0);
  const ConstTensorView weight(tensors.table.data(), DType::kBFloat16, {vocab, hidden});
  const TensorView out(tensors.rows.data(), DType::kBFloat16, {tokens, hidden});
  for (auto _ : state) samebits::embedding_forward(tensors.id_view(), weight, out, {}, threads_of(state));
  state.SetBytesProcessed(state.iterations() * 2 * 2 * tokens * hidden);
}

void embedding_backward(benchmark::State& state, std::int64_t vocab, std::int64_t hidden) {
  const std::int64_t tokens = state.range(0);
  Tensors tensors(tokens, vocab, hidden, state.range(1) != 0);
  const ConstTensorView upstream(tensors.rows.data(), DType::kBFloat16, {tokens, hidden});
  samebits::EmbeddingGradients gradients;
  gradients.weight = TensorView(tensors.table.data(), DType::kBFloat16, {vocab, hidden});
  for (auto _ : state)
    samebits::embedding_backward(tensors.id_view(), upstream, gradients, {}, threads_of(state));
  state.SetBytesProcessed(state.iterations() * 2 * (tokens + vocab) * hidden);
}

using Run = void (*)(benchmark::State&, std::int64_t, std::int64_t);

void add(const std::string& name, Run run, const Options& options) {
  for (const std::int64_t vocab : or_else(options.vocab, {32768}))
    for (const std::int64_t hidden : or_else(options.hidden, {1024})) {
      const std::string sized =
          name + named("vocab", vocab, options.vocab) + named("hidden", hidden, options.hidden);
      benchmark::RegisterBenchmark(sized.c_str(), run, vocab, hidden)
          ->ArgNames({"tokens", "shared", "threads"})
          ->ArgsProduct({or_else(options.rows, {64, 4096}), {0, 1}, or_else(options.threads, {1, 2})})
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
}
const Registered kEmbedding([](const Options& options) {
  add("embedding_forward", embedding_forward, options);
  add("embedding_backward", embedding_backward, options);
});

}  // namespace
