// How calls are run on a GPU: streams, graphs, workspaces, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "device.h"
#include "random_case.h"

namespace samebits::test {
namespace {

// A forward and backward pass over tensors that stay on the device, whatever the stream.
class Resident {
 public:
  explicit Resident(const LogpCase& c)
      : rows_(c.rows),
        vocab_(c.vocab),
        dtype_(c.logits.dtype),
        logits_(upload(c.logits)),
        grad_(std::make_unique<DeviceBytes>(c.logits.bytes.size())),
        upstream_(upload(c.grad_logp)) {
    Values ids(DType::kInt64, rows_);
    std::copy(c.targets.begin(), c.targets.end(), ids.as<std::int64_t>());
    ids_ = upload(ids);
    for (auto* output : {&logp_, &max_}) *output = std::make_unique<DeviceBytes>(rows_ * 4);
    sum_ = std::make_unique<DeviceBytes>(rows_ * 8);
  }

  void run(const ExecContext& context) {
    const TensorView logits(logits_->data(), dtype_, {rows_, vocab_}, kGpu);
    const TensorView ids(ids_->data(), DType::kInt64, {rows_}, kGpu);
    LogpOutputs outputs;
    outputs.logp = TensorView(logp_->data(), DType::kFloat32, {rows_}, kGpu);
    outputs.row_max = TensorView(max_->data(), DType::kFloat32, {rows_}, kGpu);
    outputs.row_sum = TensorView(sum_->data(), DType::kInt64, {rows_}, kGpu);
    logp_forward(logits, ids, {}, outputs, context);
    LogpUpstream upstream;
    upstream.logp = TensorView(upstream_->data(), DType::kFloat32, {rows_}, kGpu);
    logp_backward(logits, ids, {}, {outputs.row_max, outputs.row_sum, {}}, upstream,
                  TensorView(grad_->data(), dtype_, {rows_, vocab_}, kGpu), context);
  }

  void clear() {
    for (const auto& bytes : {&logp_, &max_, &sum_, &grad_})
      cuda_check(cudaMemset((*bytes)->data(), 0, (*bytes)->span().size()));
    cuda_check(cudaDeviceSynchronize());
  }

  Values logp() const { return download(*logp_, DType::kFloat32, rows_); }
  Values grad() const { return download(*grad_, dtype_, rows_ * vocab_); }

  std::size_t workspace_bytes() const {
    return logp_workspace_bytes(TensorView(logits_->data(), dtype_, {rows_, vocab_}, kGpu), {});
  }

 private:
  static std::unique_ptr<DeviceBytes> upload(const Values& values) {
    auto bytes = std::make_unique<DeviceBytes>(values.bytes.size());
    cuda_check(cudaMemcpy(bytes->data(), values.bytes.data(), values.bytes.size(), cudaMemcpyHostToDevice));
    return bytes;
  }
  static Values download(const DeviceBytes& bytes, DType dtype, std::int64_t count) {
    Values values(dtype, count);
    cuda_check(cudaDeviceSynchronize());
    cuda_check(cudaMemcpy(values.bytes.data(), bytes.data(), values.bytes.size(), cudaMemcpyDeviceToHost));
    return values;
  }

  std::int64_t rows_, vocab_;
  DType dtype_;
  std::unique_ptr<DeviceBytes> logits_, grad_, upstream_, ids_, logp_, max_, sum_;
};

class Stream {
 public:
  Stream() { cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }
  ExecContext context() const {
    ExecContext context;
    context.stream = stream_;
    return context;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

struct Shape {
  std::int64_t rows, vocab;
};
// Whole rows, and rows cut into parts.
constexpr Shape kShapes[] = {{700, 8192}, {3, 151936}};

TEST(CudaExecution, concurrent_streams_and_repeated_runs_give_the_same_bits) {
  for (const auto& [rows, vocab] : kShapes) {
    const LogpCase c = normal_case(rows, vocab, DType::kBFloat16);
    const LogpResult expected = twin(c);
    Resident one(c), two(c);
    const Stream first, second;
    for (int repeat = 0; repeat < 20; ++repeat) {
      one.clear();
      two.clear();
      for (int k = 0; k < 3; ++k) {
        one.run(first.context());
        two.run(second.context());
      }
      for (const Resident* resident : {&one, &two}) {
        ASSERT_TRUE(same_bits(expected.logp, resident->logp()));
        ASSERT_TRUE(same_bits(expected.grad, resident->grad()));
      }
    }
  }
}

TEST(CudaExecution, calls_are_captured_into_a_graph) {
  for (const auto& [rows, vocab] : kShapes)
    for (const bool with_workspace : {true, false}) {
      const LogpCase c = normal_case(rows, vocab, DType::kFloat32);
      const LogpResult expected = twin(c);
      Resident resident(c);
      const Stream stream;
      ExecContext context = stream.context();
      std::optional<DeviceBytes> workspace;
      if (with_workspace) {
        workspace.emplace(resident.workspace_bytes());
        context.workspace = workspace->span();
      }
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      cuda_check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
      resident.run(context);
      cuda_check(cudaStreamEndCapture(stream.get(), &graph));
      cuda_check(cudaGraphInstantiate(&executable, graph, 0));
      for (int replay = 0; replay < 3; ++replay) {
        resident.clear();
        cuda_check(cudaGraphLaunch(executable, stream.get()));
        ASSERT_TRUE(same_bits(expected.logp, resident.logp()));
        ASSERT_TRUE(same_bits(expected.grad, resident.grad()));
      }
      cuda_check(cudaGraphExecDestroy(executable));
      cuda_check(cudaGraphDestroy(graph));
    }
}

TEST(CudaExecution, bad_ids_raise_when_asked) {
  LogpCase c = plain_case(5, 8);
  c.targets = {3, 2, 1, 8, -1};
  c.on_invalid = OnInvalid::kRaise;
  DeviceResidence residence;
  try {
    run_case(c, LogpResult(c), {}, {}, residence);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.argument(), "targets");
    EXPECT_NE(std::string(error.what()).find("id 8 at row 3"), std::string::npos) << error.what();
  }
  c.targets = {3, 2, 1, 7, -1};
  c.ignore_index = -1;
  const LogpResult expected = twin(c);
  DeviceResidence valid;
  EXPECT_TRUE(same_result(expected, run_case(c, expected, {}, {}, valid)));
}

// A temperature that the CPU refuses makes its row NaN, and only that one.
TEST(CudaExecution, bad_row_temperature_gives_nan) {
  const LogpCase c = normal_case(3, 256, DType::kFloat32);
  const LogpResult plain = twin(c);
  for (const float bad : {0.0f, -1.0f, INFINITY, NAN}) {
    LogpCase changed = c;
    changed.row_temperature = Values(DType::kFloat32, 3);
    for (const int row : {0, 2}) set_element(changed.row_temperature, row, 1);
    set_element(changed.row_temperature, 1, bad);
    LogpResult expected = plain;
    for (Values* output : {&expected.logp, &expected.lse, &expected.entropy, &expected.row_max})
      output->as<std::uint32_t>()[1] = 0x7fffffffu;
    for (Values* output : {&expected.row_sum, &expected.row_entropy_sum}) output->as<std::uint64_t>()[1] = 0;
    for (Values* output : {&expected.grad, &expected.probabilities})
      std::fill_n(output->as<std::uint32_t>() + 256, 256, 0x7fffffffu);
    DeviceResidence residence;
    ASSERT_TRUE(same_result(expected, run_case(changed, expected, {}, {}, residence)));
  }
}

TEST(CudaExecution, refuses_other_devices_and_backends) {
  DeviceBytes memory(4096);
  std::byte* data = memory.data();
  const auto refusal = [&](Device logits, Device targets, std::string_view backend) -> std::string {
    ExecContext context;
    context.backend = backend;
    LogpOutputs outputs;
    outputs.logp = TensorView(data, DType::kFloat32, {2}, kGpu);
    try {
      logp_forward(ConstTensorView(data + 1024, DType::kFloat32, {2, 8}, logits),
                   ConstTensorView(data + 2048, DType::kInt64, {2}, targets), {}, outputs, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(kGpu, kGpu, "auto"), "");
  EXPECT_EQ(refusal(kGpu, kGpu, "cuda"), "");
  EXPECT_EQ(refusal(kGpu, {}, "auto"), "targets: is on the cpu; must be on cuda:0 like the other operands");
  EXPECT_EQ(refusal(kGpu, kGpu, "scalar"),
            "backend: is 'scalar' with operands on cuda:0; may be 'auto' or 'cuda'");
  EXPECT_EQ(refusal(kGpu, kGpu, ""), "backend: is '' with operands on cuda:0; may be 'auto' or 'cuda'");
  cuda_check(cudaDeviceSynchronize());

  PlanRequest request;
  request.device = kGpu;
  const Plan plan = samebits::plan(request);
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_EQ(plan.backend, "cuda");
  EXPECT_TRUE(plan.kernels.at(0).starts_with("logp_forward/cuda-sm")) << plan.kernels.at(0);
  request.op = "softmax";
  EXPECT_FALSE(samebits::plan(request).refusals.empty());
  request.op = "logp";
  request.device.index = 1000;
  EXPECT_FALSE(samebits::plan(request).refusals.empty());
}

}  // namespace
}  // namespace samebits::test
