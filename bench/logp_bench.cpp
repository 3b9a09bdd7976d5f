// logp from C++: decode latency, forward and backward throughput next to a plain read of the same logits.
// Bytes per second count one read of the logits (and one write of the gradient).
#include <benchmark/benchmark.h>
#include <samebits/samebits.h>

#include <cstdint>
#include <random>
#include <vector>

namespace {

using samebits::ConstTensorView;
using samebits::DType;
using samebits::TensorView;

constexpr std::int64_t kVocab = 131072;

// Logits N(0, 3) as fp32 or bf16 (upper halves), ids, outputs and gradients of one call.
struct Tensors {
  Tensors(std::int64_t rows, DType type)
      : count(rows), dtype(type), logits(rows * kVocab * dtype_size(type)), gradient(logits.size()) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    std::vector<float> pool(8191);
    for (float& value : pool) value = normal(generator);
    for (std::int64_t i = 0; i < rows * kVocab; ++i) {
      const float value = pool[static_cast<std::size_t>(i * 7919 % 8191)];
      if (type == DType::kFloat32)
        reinterpret_cast<float*>(logits.data())[i] = value;
      else
        reinterpret_cast<std::uint16_t*>(logits.data())[i] =
            static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16);
    }
    for (std::int64_t row = 0; row < rows; ++row) targets.push_back(row * 997 % kVocab);
    logp.resize(rows), max.resize(rows), sum.resize(rows), upstream.assign(rows, 1.0f);
    outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows});
    outputs.row_max = TensorView(max.data(), DType::kFloat32, {rows});
    outputs.row_sum = TensorView(sum.data(), DType::kInt64, {rows});
  }

  ConstTensorView x() const { return {logits.data(), dtype, {count, kVocab}}; }
  ConstTensorView ids() const { return {targets.data(), DType::kInt64, {count}}; }

  std::int64_t count;
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

void logp_forward(benchmark::State& state) {
  Tensors tensors(state.range(0), dtype_of(state));
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(2));
  for (auto _ : state) samebits::logp_forward(tensors.x(), tensors.ids(), {}, tensors.outputs, context);
  finish(state, tensors, 1);
}

void logp_backward(benchmark::State& state) {
  Tensors tensors(state.range(0), dtype_of(state));
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(2));
  samebits::logp_forward(tensors.x(), tensors.ids(), {}, tensors.outputs, context);
  const samebits::LogpStats stats{tensors.outputs.row_max, tensors.outputs.row_sum, {}};
  samebits::LogpUpstream upstream;
  upstream.logp = ConstTensorView(tensors.upstream.data(), DType::kFloat32, {tensors.count});
  const TensorView gradient(tensors.gradient.data(), tensors.dtype, {tensors.count, kVocab});
  for (auto _ : state)
    samebits::logp_backward(tensors.x(), tensors.ids(), {}, stats, upstream, gradient, context);
  finish(state, tensors, 2);
}

// What the memory gives one core: the logits added up as integers.
void pure_read(benchmark::State& state) {
  const Tensors tensors(state.range(0), dtype_of(state));
  const auto* words = reinterpret_cast<const std::uint64_t*>(tensors.logits.data());
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < tensors.logits.size() / 8; ++i) sum += words[i];
    benchmark::DoNotOptimize(sum);
  }
  finish(state, tensors, 1);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "bf16", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int threads : {1, 2})
    for (const int bf16 : {0, 1})
      for (const int rows : {1, 64}) bench->Args({rows, bf16, threads});
}

BENCHMARK(logp_forward)->Apply(sizes);
BENCHMARK(logp_backward)->Apply(sizes);
BENCHMARK(pure_read)->ArgNames({"rows", "bf16"})->Args({64, 0})->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
