// logp from C++: decode latency, forward and backward throughput next to a plain read of the same logits.
// Bytes per second count one read of the logits (and one write of the gradient).
#include <benchmark/benchmark.h>
#include <samebits/samebits.h>

#include <cstdint>
#include <random>
#include <vector>

#include "options.h"

namespace {

using samebits::ConstTensorView;
using samebits::DType;
using samebits::TensorView;
using samebits::bench::named, samebits::bench::Options, samebits::bench::or_else, samebits::bench::Registered;

// Logits N(0, 3) as fp32 or bf16 (upper halves), ids, outputs and gradients of one call.
struct Tensors {
  Tensors(std::int64_t rows, std::int64_t columns, DType type)
      : count(rows),
        vocab(columns),
        dtype(type),
        logits(rows * vocab * dtype_size(type)),
        gradient(logits.size()) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    std::vector<float> pool(8191);
    for (float& value : pool) value = normal(generator);
    for (std::int64_t i = 0; i < rows * vocab; ++i) {
      const float value = pool[static_cast<std::size_t>(i * 7919 % 8191)];
      if (type == DType::kFloat32)
        reinterpret_cast<float*>(logits.data())[i] = value;
      else
        reinterpret_cast<std::uint16_t*>(logits.data())[i] =
            static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16);
    }
    for (std::int64_t row = 0; row < rows; ++row) targets.push_back(row * 997 % vocab);
    logp.resize(rows), max.resize(rows), sum.resize(rows), upstream.assign(rows, 1.0f);
    outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows});
    outputs.row_max = TensorView(max.data(), DType::kFloat32, {rows});
    outputs.row_sum = TensorView(sum.data(), DType::kInt64, {rows});
  }

  ConstTensorView x() const { return {logits.data(), dtype, {count, vocab}}; }
  ConstTensorView ids() const { return {targets.data(), DType::kInt64, {count}}; }

  std::int64_t count, vocab;
  DType dtype;
  std::vector<std::byte> logits, gradient;
  std::vector<std::int64_t> targets, sum;
  std::vector<float> logp, max, upstream;
  samebits::LogpOutputs outputs;
};

DType dtype_of(const benchmark::State& state) {
  return state.range(1) == 0 ? DType::kFloat32 : DType::kBFloat16;
}

void finish(benchmark::State& state, const Tensors& tensors, int passes) {
  state.SetBytesProcessed(state.iterations() * passes * static_cast<std::int64_t>(tensors.logits.size()));
  state.SetLabel(std::string(dtype_name(tensors.dtype)));
}

void logp_forward(benchmark::State& state, std::int64_t vocab) {
  Tensors tensors(state.range(0), vocab, dtype_of(state));
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(2));
  for (auto _ : state) samebits::logp_forward(tensors.x(), tensors.ids(), {}, tensors.outputs, context);
  finish(state, tensors, 1);
}

void logp_backward(benchmark::State& state, std::int64_t vocab) {
  Tensors tensors(state.range(0), vocab, dtype_of(state));
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(2));
  samebits::logp_forward(tensors.x(), tensors.ids(), {}, tensors.outputs, context);
  const samebits::LogpStats stats{tensors.outputs.row_max, tensors.outputs.row_sum, {}};
  samebits::LogpUpstream upstream;
  upstream.logp = ConstTensorView(tensors.upstream.data(), DType::kFloat32, {tensors.count});
  const TensorView gradient(tensors.gradient.data(), tensors.dtype, {tensors.count, tensors.vocab});
  for (auto _ : state)
    samebits::logp_backward(tensors.x(), tensors.ids(), {}, stats, upstream, gradient, context);
  finish(state, tensors, 2);
}

// What the memory gives one core: the logits added up as integers.
void pure_read(benchmark::State& state, std::int64_t vocab) {
  const Tensors tensors(state.range(0), vocab, dtype_of(state));
  const auto* words = reinterpret_cast<const std::uint64_t*>(tensors.logits.data());
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < tensors.logits.size() / 8; ++i) sum += words[i];
    benchmark::DoNotOptimize(sum);
  }
  finish(state, tensors, 1);
}

using Run = void (*)(benchmark::State&, std::int64_t);

benchmark::internal::Benchmark* add(const std::string& name, Run run, std::int64_t vocab,
                                    const Options& options) {
  const std::string sized = name + named("vocab", vocab, options.vocab);
  return benchmark::RegisterBenchmark(sized.c_str(), run, vocab)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}
const Registered kLogp([](const Options& options) {
  for (const std::int64_t vocab : or_else(options.vocab, {131072})) {
    for (auto* bench : {add("logp_forward", logp_forward, vocab, options),
                        add("logp_backward", logp_backward, vocab, options)}) {
      bench->ArgNames({"rows", "bf16", "threads"});
      for (const std::int64_t threads : or_else(options.threads, {1, 2}))
        for (const std::int64_t bf16 : {0, 1})
          for (const std::int64_t rows : or_else(options.rows, {1, 64})) bench->Args({rows, bf16, threads});
    }
    add("pure_read", pure_read, vocab, options)
        ->ArgNames({"rows", "bf16"})
        ->ArgsProduct({or_else(options.rows, {64}), {0}});
  }
});

}  // namespace
