// cuda_bench: forward and backward beside a pure read and a copy of the same tensors, interleaved in one run.
// Prints a table (medians) and writes JSON to the file named by the first argument. With --tune and a file: chooses tiles.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <samebits/cuda.h>
#include <samebits/samebits.h>

#include "tune.h"

namespace {

using samebits::DType;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// Normal-like logits: sums of four uniforms from a hash of the position.
template <class T>
__global__ void fill(T* x, std::int64_t count, std::int64_t first = 0) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    std::uint64_t z = static_cast<std::uint64_t>(first + i) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<float>((z >> (16 * k)) & 0xffff) / 65536.0f - 0.5f;
    const float value = 5.2f * sum;  // standard deviation 3
    if constexpr (sizeof(T) >= 4)
      x[i] = value;
    else
      x[i] = static_cast<T>(__float_as_uint(value) >> 16);  // bf16, cut
  }
}

constexpr int kReadUnroll = 8;
// The fastest plain read found: 16-byte loads, eight in flight per thread.
__global__ void __launch_bounds__(512) pure_read(const uint4* x, std::int64_t count, unsigned* sink) {
  const std::int64_t base = blockIdx.x * static_cast<std::int64_t>(blockDim.x) * kReadUnroll + threadIdx.x;
  uint4 v[kReadUnroll];
#pragma unroll
  for (int i = 0; i < kReadUnroll; ++i) {
    const std::int64_t at = base + static_cast<std::int64_t>(i) * blockDim.x;
    v[i] = at < count ? __ldcs(x + at) : make_uint4(0, 0, 0, 0);
  }
  unsigned mix = 0;
#pragma unroll
  for (int i = 0; i < kReadUnroll; ++i) mix ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  if (mix == 0x12345678u) *sink = mix;
}

__global__ void __launch_bounds__(512) pure_copy(const uint4* x, uint4* y, std::int64_t count) {
  const std::int64_t base = blockIdx.x * static_cast<std::int64_t>(blockDim.x) * 4 + threadIdx.x;
  uint4 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (base + i * blockDim.x < count) v[i] = __ldcs(x + base + i * blockDim.x);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (base + i * blockDim.x < count) __stcs(y + base + i * blockDim.x, v[i]);
}

struct Buffer {
  void* data = nullptr;
  explicit Buffer(std::int64_t bytes) {
    check(cudaMalloc(&data, static_cast<std::size_t>(bytes)));
    check(cudaMemset(data, 0, static_cast<std::size_t>(bytes)));
  }
  ~Buffer() { cudaFree(data); }
};

struct Contestant {
  const char* name;
  double bytes;  // moved, for the rate
  std::function<void(cudaStream_t)> run;
};

double median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Microseconds per call; short calls are replayed from a graph of `repeat` of them.
std::vector<double> time_all(const std::vector<Contestant>& all, int rounds, int repeat) {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<cudaGraphExec_t> graphs(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int k = 0; k < repeat; ++k) all[i].run(stream);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&graphs[i], graph, 0));
    check(cudaGraphDestroy(graph));
  }
  std::vector<std::vector<float>> times(all.size());
  for (int round = -2; round < rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      check(cudaEventRecord(begin, stream));
      check(cudaGraphLaunch(graphs[i], stream));
      check(cudaEventRecord(end, stream));
      check(cudaStreamSynchronize(stream));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin, end));
      if (round >= 0) times[i].push_back(milliseconds * 1000.0f / static_cast<float>(repeat));
    }
  std::vector<double> result;
  for (const auto& t : times) result.push_back(median(t));
  for (cudaGraphExec_t graph : graphs) check(cudaGraphExecDestroy(graph));
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  check(cudaStreamDestroy(stream));
  return result;
}

void bench(std::int64_t rows, std::int64_t vocab, DType dtype, FILE* json, bool& first_line) {
  const samebits::Device gpu{samebits::DeviceType::kCuda, 0};
  const bool wide = dtype == DType::kFloat64;
  const DType real = wide ? DType::kFloat64 : DType::kFloat32;
  const std::int64_t count = rows * vocab, bytes = count * samebits::dtype_size(dtype);
  Buffer x(bytes), dx(bytes), ids(rows * 8), logp(rows * 8), lse(rows * 8), entropy(rows * 8), max(rows * 8),
      sum(rows * 16), entropy_sum(rows * 16), upstream(rows * 8), sink(4);
  if (dtype == DType::kFloat32)
    fill<<<4096, 256>>>(static_cast<float*>(x.data), count);
  else if (dtype == DType::kFloat64)
    fill<<<4096, 256>>>(static_cast<double*>(x.data), count);
  else
    fill<<<4096, 256>>>(static_cast<std::uint16_t*>(x.data), count);
  if (wide)
    fill<<<1, 256>>>(static_cast<double*>(upstream.data), rows);
  else
    fill<<<1, 256>>>(static_cast<float*>(upstream.data), rows);
  check(cudaDeviceSynchronize());

  using namespace samebits;
  const TensorView logits(x.data, dtype, {rows, vocab}, gpu), grad(dx.data, dtype, {rows, vocab}, gpu);
  const TensorView targets(ids.data, DType::kInt64, {rows}, gpu);
  LogpOutputs outputs, with_entropy;
  outputs.logp = TensorView(logp.data, real, {rows}, gpu);
  outputs.lse = TensorView(lse.data, real, {rows}, gpu);
  outputs.row_max = TensorView(max.data, real, {rows}, gpu);
  const auto sums = [&](Buffer& buffer) {
    return wide ? TensorView(buffer.data, DType::kInt64, {rows, 2}, gpu)
                : TensorView(buffer.data, DType::kInt64, {rows}, gpu);
  };
  outputs.row_sum = sums(sum);
  with_entropy = outputs;
  with_entropy.entropy = TensorView(entropy.data, real, {rows}, gpu);
  with_entropy.row_entropy_sum = sums(entropy_sum);
  const LogpStats stats{outputs.row_max, outputs.row_sum, with_entropy.row_entropy_sum};
  LogpUpstream g, g_entropy;
  g.logp = TensorView(upstream.data, real, {rows}, gpu);
  g_entropy = g;
  g_entropy.entropy = g.logp;
  LogpOptions warm;
  warm.temperature = 0.7;
  Buffer scratch(static_cast<std::int64_t>(logp_workspace_bytes(logits, {}, {})) + 256);
  const auto context = [&](cudaStream_t stream) {
    ExecContext context;
    context.stream = stream;
    context.workspace = {static_cast<std::byte*>(scratch.data), logp_workspace_bytes(logits, {}, {})};
    return context;
  };
  logp_forward(logits, targets, {}, with_entropy, context(nullptr));
  check(cudaDeviceSynchronize());

  const std::int64_t vectors = bytes / 16;
  const auto ctas = [&](int per_thread) {
    return static_cast<unsigned>((vectors + 512 * per_thread - 1) / (512 * per_thread));
  };
  const double read = static_cast<double>(bytes);
  std::vector<Contestant> all = {
      {"read", read,
       [&](cudaStream_t s) {
         pure_read<<<ctas(kReadUnroll), 512, 0, s>>>(static_cast<const uint4*>(x.data), vectors,
                                                     static_cast<unsigned*>(sink.data));
       }},
      {"forward", read, [&](cudaStream_t s) { logp_forward(logits, targets, {}, outputs, context(s)); }},
      {"forward_temperature", read,
       [&](cudaStream_t s) { logp_forward(logits, targets, warm, outputs, context(s)); }},
      {"forward_entropy", read,
       [&](cudaStream_t s) { logp_forward(logits, targets, {}, with_entropy, context(s)); }},
      {"copy", 2 * read,
       [&](cudaStream_t s) {
         pure_copy<<<ctas(4), 512, 0, s>>>(static_cast<const uint4*>(x.data), static_cast<uint4*>(dx.data),
                                           vectors);
       }},
      {"backward", 2 * read,
       [&](cudaStream_t s) { logp_backward(logits, targets, {}, stats, g, grad, context(s)); }},
      {"backward_entropy", 2 * read,
       [&](cudaStream_t s) { logp_backward(logits, targets, {}, stats, g_entropy, grad, context(s)); }},
  };
  // Both read and write 4 or 8 bytes per element beside the logits; the rate counts what is moved.
  const double real_bytes = static_cast<double>(count * dtype_size(real));
  std::optional<Buffer> p(std::in_place, count * dtype_size(real));
  const TensorView probabilities(p->data, real, {rows, vocab}, gpu);
  logp_forward(logits, targets, {}, with_entropy, context(nullptr));
  probability(logits, targets, {}, stats, probabilities);
  check(cudaDeviceSynchronize());
  all.push_back({"probability", read + real_bytes, [&](cudaStream_t s) {
                   probability(logits, targets, {}, stats, probabilities, context(s));
                 }});
  all.push_back({"row_sum", real_bytes,
                 [&](cudaStream_t s) { row_sum(probabilities, with_entropy.entropy, context(s)); }});
  if (bytes >= std::int64_t{1} << 28)
    all.push_back({"memcpy", 2 * read, [&](cudaStream_t s) {
                     check(cudaMemcpyAsync(dx.data, x.data, static_cast<std::size_t>(bytes),
                                           cudaMemcpyDeviceToDevice, s));
                   }});
  const std::vector<double> times = time_all(all, 11, bytes < (std::int64_t{1} << 28) ? 50 : 1);
  std::printf("%6lld x %-7lld %-9s", static_cast<long long>(rows), static_cast<long long>(vocab),
              std::string(dtype_name(dtype)).c_str());
  double read_time = 0, copy_time = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = all[i].name;
    if (name == "read") read_time = times[i];
    if (name == "copy") copy_time = times[i];
    const double base = name.starts_with("forward")    ? read_time
                        : name.starts_with("backward") ? copy_time
                                                       : times[i];
    std::printf(" | %s %.1f us %.0f GB/s %.3f", all[i].name, times[i], all[i].bytes / times[i] * 1e-3,
                base / times[i]);
    std::fprintf(json,
                 "%s{\"rows\": %lld, \"vocab\": %lld, \"dtype\": \"%s\", \"what\": \"%s\", \"us\": %.3f, "
                 "\"gb_per_s\": %.1f}",
                 first_line ? "\n" : ",\n", static_cast<long long>(rows), static_cast<long long>(vocab),
                 std::string(dtype_name(dtype)).c_str(), all[i].name, times[i],
                 all[i].bytes / times[i] * 1e-3);
    first_line = false;
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

void samebits::test::fill_bfloat16(void* data, std::int64_t count, std::int64_t first) {
  fill<<<4096, 256>>>(static_cast<std::uint16_t*>(data), count, first);
  check(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  samebits::cuda::enable();
  if (argc > 2 && std::string(argv[1]) == "--tune") return samebits::test::tune(argv[2]) ? 0 : 2;
  FILE* json = std::fopen(argc > 1 ? argv[1] : "cuda_bench.json", "w");
  if (json == nullptr) return 1;
  std::fprintf(json, "[");
  bool first_line = true;
  try {
    struct Shape {
      std::int64_t rows, vocab;
      std::vector<DType> dtypes;
    };
    const std::vector<DType> usual = {DType::kFloat32, DType::kBFloat16};
    // 50257 columns of 16 bits are not aligned to 16 bytes.
    std::vector<Shape> shapes = {{4096, 131072, usual}, {8192, 151936, usual},
                                 {512, 131072, usual},  {64, 131072, usual},
                                 {8, 131072, usual},    {1, 131072, usual},
                                 {8192, 50257, usual},  {1024, 131072, {DType::kFloat64}}};
    // A second argument takes only the first shapes.
    if (argc > 2) shapes.resize(std::min<std::size_t>(shapes.size(), std::strtoul(argv[2], nullptr, 10)));
    for (const Shape& shape : shapes)
      for (const DType dtype : shape.dtypes) bench(shape.rows, shape.vocab, dtype, json, first_line);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::fprintf(json, "\n]\n");
  std::fclose(json);
  return 0;
}
