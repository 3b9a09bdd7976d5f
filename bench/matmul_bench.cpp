// matmul and linear_logp from C++: arithmetic against the FMA peak of a core, decode against a plain read of weight.
#include <benchmark/benchmark.h>
#include <samebits/samebits.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "options.h"

namespace {

using samebits::ConstTensorView;
using samebits::DType;
using samebits::TensorView;
using samebits::bench::Options, samebits::bench::or_else, samebits::bench::Registered, samebits::bench::Sizes;

// rows x vocab x hidden, on so many threads: those asked for, else a benchmark's own.
benchmark::internal::Benchmark* add_sizes(benchmark::internal::Benchmark* bench, const Options& options,
                                          Sizes rows, Sizes vocab, Sizes hidden) {
  return bench->ArgNames({"rows", "vocab", "hidden", "threads"})
      ->ArgsProduct({or_else(options.rows, std::move(rows)), or_else(options.vocab, std::move(vocab)),
                     or_else(options.hidden, std::move(hidden)), or_else(options.threads, {1, 2})})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

std::vector<float> random_floats(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state) >> 8) * 0x1p-23f;
  }
  return values;
}

#if defined(__x86_64__)
// Chains of fused multiply-adds in registers, enough of them to hide their latency. Returns multiply-adds.
__attribute__((target("avx512f"))) std::int64_t chains_avx512(std::int64_t steps) {
  __m512 sum[24];
  for (__m512& s : sum) s = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.5f);
  for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 24
    for (__m512& s : sum) s = _mm512_fmadd_ps(s, a, b);
  }
  for (__m512& s : sum) benchmark::DoNotOptimize(s);
  return steps * 24 * 16;
}
__attribute__((target("avx2,fma"))) std::int64_t chains_avx2(std::int64_t steps) {
  __m256 sum[12];
  for (__m256& s : sum) s = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.5f);
  for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (__m256& s : sum) s = _mm256_fmadd_ps(s, a, b);
  }
  for (__m256& s : sum) benchmark::DoNotOptimize(s);
  return steps * 12 * 8;
}

// GFLOP/s counts a multiply-add as two.
void fma_peak_of_a_core(benchmark::State& state) {
  std::int64_t count = 0;
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) {
    state.SkipWithError("needs AVX2 and FMA");
    return;
  }
  for (auto _ : state) count += wide ? chains_avx512(1000000) : chains_avx2(1000000);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(count), benchmark::Counter::kIsRate);
}
BENCHMARK(fma_peak_of_a_core)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

// rows x vocab x hidden, weight as [vocab, hidden].
void matmul(benchmark::State& state) {
  const std::int64_t rows = state.range(0), vocab = state.range(1), hidden = state.range(2);
  const std::vector<float> a = random_floats(rows * hidden), b = random_floats(vocab * hidden);
  std::vector<float> out(static_cast<std::size_t>(rows * vocab));
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(3));
  const ConstTensorView left(a.data(), DType::kFloat32, {rows, hidden});
  const ConstTensorView right(b.data(), DType::kFloat32, {hidden, vocab}, {1, hidden});
  const TensorView result(out.data(), DType::kFloat32, {rows, vocab});
  for (auto _ : state) samebits::matmul(left, right, result, {}, context);
  const double work =
      2e-9 * static_cast<double>(state.iterations()) * static_cast<double>(rows * vocab * hidden);
  state.counters["GFLOP/s"] = benchmark::Counter(work, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(b.size() * sizeof(float)));
}
const Registered kMatmul([](const Options& options) {
  auto* bench =
      add_sizes(benchmark::RegisterBenchmark("matmul", matmul), options, {1, 16, 64, 1024}, {8192}, {2688});
  if (!options.any()) bench->Args({1, 8192, 4096, 1})->Args({2048, 2048, 2048, 1});
});

// The same for bfloat16 under tc16.v1, on random bits of moderate exponents.
std::vector<std::uint16_t> random_bfloat16(std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  const std::vector<float> wide = random_floats(count);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &wide[static_cast<std::size_t>(i)], sizeof bits);
    values[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(bits >> 16);
  }
  return values;
}

void matmul_tc16(benchmark::State& state) {
  const std::int64_t rows = state.range(0), vocab = state.range(1), hidden = state.range(2);
  const std::vector<std::uint16_t> a = random_bfloat16(rows * hidden), b = random_bfloat16(vocab * hidden);
  std::vector<float> out(static_cast<std::size_t>(rows * vocab));
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(3));
  const ConstTensorView left(a.data(), DType::kBFloat16, {rows, hidden});
  const ConstTensorView right(b.data(), DType::kBFloat16, {hidden, vocab}, {1, hidden});
  const TensorView result(out.data(), DType::kFloat32, {rows, vocab});
  for (auto _ : state) samebits::matmul(left, right, result, {}, context);
  const double work =
      1e-9 * static_cast<double>(state.iterations()) * static_cast<double>(rows * vocab * hidden);
  state.counters["GMAC/s"] = benchmark::Counter(work, benchmark::Counter::kIsRate);
}
const Registered kMatmulTc16([](const Options& options) {
  add_sizes(benchmark::RegisterBenchmark("matmul_tc16", matmul_tc16), options, {1, 16, 1024}, {8192}, {2688});
});

// The same with the statistics of the logits instead of the logits.
void linear_logp_forward(benchmark::State& state) {
  const std::int64_t rows = state.range(0), vocab = state.range(1), hidden = state.range(2);
  const std::vector<float> a = random_floats(rows * hidden), b = random_floats(vocab * hidden);
  std::vector<float> logp(static_cast<std::size_t>(rows));
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows), vocab / 2);
  samebits::ExecContext context;
  context.threads = static_cast<int>(state.range(3));
  samebits::LogpOutputs outputs;
  outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows});
  for (auto _ : state)
    samebits::linear_logp_forward(ConstTensorView(a.data(), DType::kFloat32, {rows, hidden}),
                                  ConstTensorView(b.data(), DType::kFloat32, {vocab, hidden}),
                                  ConstTensorView(targets.data(), DType::kInt64, {rows}), {}, {}, outputs, {},
                                  context);
  const double work =
      2e-9 * static_cast<double>(state.iterations()) * static_cast<double>(rows * vocab * hidden);
  state.counters["GFLOP/s"] = benchmark::Counter(work, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(b.size() * sizeof(float)));
}
const Registered kLinearLogpForward([](const Options& options) {
  add_sizes(benchmark::RegisterBenchmark("linear_logp_forward", linear_logp_forward), options, {1, 1024},
            {32768}, {1024});
});

// What memory gives one core: a weight of the decode shapes added up as integers.
void pure_read_of_weight(benchmark::State& state) {
  const std::vector<float> b = random_floats(std::int64_t{32768} * 1024);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < b.size(); i += 2) {
      std::uint64_t word;
      std::memcpy(&word, b.data() + i, sizeof word);
      sum += word;
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(b.size() * sizeof(float)));
}
BENCHMARK(pure_read_of_weight)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
