#include "cuda/probe.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/launch/operators.h"
#include "cuda/probe_cases.h"
#include "cuda/runtime.h"

namespace samebits::cuda {
namespace {

// Lets this thread allocate and wait although some stream is being captured.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class OwnStream {
 public:
  OwnStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

std::vector<std::uint32_t> through(const ProductEngine& engine, const ProbeCase& c, Device device,
                                   cudaStream_t stream) {
  core::DeviceCall call;
  call.device = device;
  call.stream = stream;
  const std::size_t a_bytes = Scratch::rounded(c.a.size() * 2), b_bytes = Scratch::rounded(c.b.size() * 2);
  const std::size_t out_bytes = c.expected.size() * 4;
  Scratch memory(call, a_bytes + b_bytes + out_bytes);
  void* a = memory.take(a_bytes);
  void* b = memory.take(b_bytes);
  void* out = memory.take(out_bytes);
  check(cudaMemcpyAsync(a, c.a.data(), c.a.size() * 2, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  check(cudaMemcpyAsync(b, c.b.data(), c.b.size() * 2, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");

  Product product;
  product.rows = c.rows;
  product.columns = c.columns;
  product.depth = c.depth;
  product.a_dtype = product.b_dtype = c.dtype;
  product.tc16 = true;
  product.a = {a, c.depth, 1};
  product.b = {b, 1, c.depth};
  product.out = out;
  product.out_row_stride = c.columns;
  const std::string refusal = engine.refusal(product, device);
  if (!refusal.empty())
    throw Error(ErrorCode::kUnsupported, "backend", "is '" + std::string(engine.name) + "': " + refusal);
  engine.run(product, call);
  std::vector<std::uint32_t> result(c.expected.size());
  check(cudaMemcpyAsync(result.data(), out, out_bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return result;
}

std::string first_difference(const ProbeCase& c, const std::vector<std::uint32_t>& result) {
  std::size_t count = 0, first = 0;
  for (std::size_t i = result.size(); i-- > 0;)
    if (result[i] != c.expected[i]) {
      ++count;
      first = i;
    }
  if (count == 0) return "";
  char text[160];
  std::snprintf(text, sizeof text,
                "%zu of %zu sums differ (%s %s; the first, %zu, is 0x%08x and must be 0x%08x)", count,
                result.size(), std::string(dtype_name(c.dtype)).c_str(), c.family, first, result[first],
                c.expected[first]);
  return text;
}

ProbeResult run_probe(const ProductEngine& engine, Device device) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  const OwnStream stream;
  std::size_t sums = 0;
  for (const ProbeCase& c : probe_cases()) {
    const std::string difference = first_difference(c, through(engine, c, device, stream.get()));
    if (!difference.empty()) return {false, std::string(engine.name) + ": " + difference};
    sums += c.expected.size();
  }
  return {true, std::to_string(probe_cases().size()) + " products, " + std::to_string(sums) + " sums"};
}

// Those that may be chosen on this device without being named.
std::vector<const ProductEngine*> chosen_engines(Device device) {
  Product any;
  any.rows = any.columns = any.depth = 64;
  any.a_dtype = any.b_dtype = DType::kBFloat16;
  any.tc16 = true;
  any.a = {nullptr, 64, 1};
  any.b = {nullptr, 1, 64};
  any.out_row_stride = 64;
  std::vector<const ProductEngine*> engines;
  for (const ProductEngine& engine : product_engines())
    if (engine.tensor_cores && !engine.by_name_only && engine.refusal(any, device).empty())
      engines.push_back(&engine);
  return engines;
}

}  // namespace

const ProbeResult& probe(const ProductEngine& engine, Device device) {
  static std::mutex mutex;
  static std::map<std::pair<int, const ProductEngine*>, ProbeResult> known;
  const std::lock_guard lock(mutex);
  const std::pair key{device.index, &engine};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  try {
    return known.emplace(key, run_probe(engine, device)).first->second;
  } catch (const Error& error) {
    throw Error(
        ErrorCode::kUnsupported, "contract",
        "is 'tc16', and " + core::device_text(device) + " could not be probed for it (" + error.what() +
            "); where a graph is being captured, call plan() for this device or the operator itself before");
  }
}

void require_tc16(const ProductEngine& engine, Device device) {
  const ProbeResult& result = probe(engine, device);
  if (!result.passed)
    throw Error(ErrorCode::kUnsupported, "contract",
                "is 'tc16', which the tensor cores of " + core::device_text(device) + " (" +
                    traits(device).name + ") do not follow: " + result.text + "; may be 'fma'");
}

void require_tc16(Device device) {
  for (const ProductEngine* engine : chosen_engines(device)) require_tc16(*engine, device);
}

std::string tc16_probe(Device device) {
  std::string text;
  for (const ProductEngine* engine : chosen_engines(device)) {
    require_tc16(*engine, device);
    text +=
        (text.empty() ? "passed: " : "; ") + std::string(engine->name) + " " + probe(*engine, device).text;
  }
  return text;
}

}  // namespace samebits::cuda
