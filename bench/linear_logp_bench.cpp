// linear_logp from C++: forward and backward as rates of their products, two operations per multiply-add: one product
// forward, the logits again and one product per gradient backward.
#include <benchmark/benchmark.h>
#include <samebits/samebits.h>

#include <cstdint>
#include <vector>

#include "options.h"

namespace {

using samebits::ConstTensorView;
using samebits::DType;
using samebits::TensorView;
using samebits::bench::Options, samebits::bench::or_else, samebits::bench::Registered;

std::vector<float> small_floats(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state) >> 8) * 0x1p-27f;
  }
  return values;
}

// Which gradients: bit 0 hidden, bit 1 weight; none is the forward pass.
void linear_logp_step(benchmark::State& state, int threads) {
  const std::int64_t rows = state.range(0), vocab = state.range(1), size = state.range(2);
  const bool to_hidden = (state.range(3) & 1) != 0, to_weight = (state.range(3) & 2) != 0;
  const std::vector<float> hidden = small_floats(rows * size), weight = small_floats(vocab * size);
  std::vector<float> logp(static_cast<std::size_t>(rows)), row_max(logp.size()), upstream(logp.size(), 1.0f);
  std::vector<std::int64_t> targets(logp.size(), vocab / 2), row_sum(logp.size());
  std::vector<float> grad_hidden(hidden.size()), grad_weight(weight.size());
  const ConstTensorView x(hidden.data(), DType::kFloat32, {rows, size});
  const ConstTensorView w(weight.data(), DType::kFloat32, {vocab, size});
  const ConstTensorView ids(targets.data(), DType::kInt64, {rows});
  samebits::LogpOutputs outputs;
  outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows});
  outputs.row_max = TensorView(row_max.data(), DType::kFloat32, {rows});
  outputs.row_sum = TensorView(row_sum.data(), DType::kInt64, {rows});
  samebits::ExecContext context;
  context.threads = threads;
  const auto forward = [&] { samebits::linear_logp_forward(x, w, ids, {}, {}, outputs, {}, context); };
  forward();
  samebits::LinearLogpGradients gradients;
  if (to_hidden) gradients.hidden = TensorView(grad_hidden.data(), DType::kFloat32, {rows, size});
  if (to_weight) gradients.weight = TensorView(grad_weight.data(), DType::kFloat32, {vocab, size});
  for (auto _ : state) {
    if (state.range(3) == 0)
      forward();
    else
      samebits::linear_logp_backward(x, w, ids, {}, {}, {outputs.row_max, outputs.row_sum, {}},
                                     {ConstTensorView(upstream.data(), DType::kFloat32, {rows}), {}, {}},
                                     gradients, "auto", context);
  }
  const double products = 1.0 + to_hidden + to_weight;
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * products * static_cast<double>(state.iterations()) * static_cast<double>(rows * vocab * size),
      benchmark::Counter::kIsRate);
}
const Registered kStep([](const Options& options) {
  for (const std::int64_t threads : or_else(options.threads, {1})) {
    const std::string name = "linear_logp_step" + samebits::bench::named("threads", threads, options.threads);
    benchmark::RegisterBenchmark(name.c_str(), linear_logp_step, static_cast<int>(threads))
        ->ArgNames({"rows", "vocab", "hidden", "gradients"})
        ->ArgsProduct({or_else(options.rows, {1024}),
                       or_else(options.vocab, {32768}),
                       or_else(options.hidden, {1024}),
                       {0, 1, 2, 3}})
        ->Unit(benchmark::kMillisecond);
  }
});

}  // namespace
