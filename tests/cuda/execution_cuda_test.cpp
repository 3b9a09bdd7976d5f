// How calls are run on a GPU: streams, graphs, workspaces, sizes beyond 32 bits, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "device.h"
#include "random_case.h"
#include "row_sum_case.h"

namespace samebits::test {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};

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

LogpCase normal_case(std::int64_t rows, std::int64_t vocab, DType dtype) {
  Rng rng(static_cast<std::uint64_t>(rows * vocab));
  LogpCase c = plain_case(rows, vocab, dtype);
  for (std::int64_t k = 0; k < rows * vocab; ++k)
    set_element(c.logits, k, 20 * (rng.uniform() + rng.uniform() - 1));
  for (std::int64_t& target : c.targets) target = rng.below(vocab);
  c.grad_logp = Values(DType::kFloat32, rows);
  for (std::int64_t row = 0; row < rows; ++row) set_element(c.grad_logp, row, rng.normal());
  return c;
}

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

// A1: rows * vocab beyond 2^31, and more rows than a grid's y or z dimension holds.
TEST(CudaExecution, offsets_and_row_numbers_beyond_32_and_16_bits) {
  struct Large {
    std::int64_t rows, vocab;
  };
  for (const auto& [rows, vocab] : {Large{16385, 131072}, Large{70001, 32768}, Large{5000001, 16}}) {
    const std::int64_t count = rows * vocab;
    DeviceBytes logits(static_cast<std::size_t>(2 * count)), grad(static_cast<std::size_t>(2 * count));
    DeviceBytes ids(static_cast<std::size_t>(8 * rows)), logp(static_cast<std::size_t>(4 * rows)),
        max(static_cast<std::size_t>(4 * rows)), sum(static_cast<std::size_t>(8 * rows)),
        upstream(static_cast<std::size_t>(4 * rows));
    for (const DeviceBytes* bytes : {&logits, &ids, &upstream})
      cuda_check(cudaMemset(bytes->data(), 0, bytes->span().size()));
    // All rows zero with target 0, but the last, which is the one case's.
    LogpCase last = plain_case(1, vocab, DType::kBFloat16), zero = last;
    set_element(last.logits, 5, 11);
    last.targets = {5};
    last.grad_logp = zero.grad_logp = Values(DType::kFloat32, 1);
    set_element(last.grad_logp, 0, 1);
    const std::int64_t id = 5;
    const float one = 1;
    cuda_check(cudaMemcpy(logits.data() + 2 * (count - vocab), last.logits.bytes.data(),
                          static_cast<std::size_t>(2 * vocab), cudaMemcpyHostToDevice));
    cuda_check(cudaMemcpy(ids.data() + 8 * (rows - 1), &id, 8, cudaMemcpyHostToDevice));
    cuda_check(cudaMemcpy(upstream.data() + 4 * (rows - 1), &one, 4, cudaMemcpyHostToDevice));
    const TensorView x(logits.data(), DType::kBFloat16, {rows, vocab}, kGpu);
    LogpOutputs outputs;
    outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows}, kGpu);
    outputs.row_max = TensorView(max.data(), DType::kFloat32, {rows}, kGpu);
    outputs.row_sum = TensorView(sum.data(), DType::kInt64, {rows}, kGpu);
    const TensorView targets(ids.data(), DType::kInt64, {rows}, kGpu);
    logp_forward(x, targets, {}, outputs);
    LogpUpstream g;
    g.logp = TensorView(upstream.data(), DType::kFloat32, {rows}, kGpu);
    logp_backward(x, targets, {}, {outputs.row_max, outputs.row_sum, {}}, g,
                  TensorView(grad.data(), DType::kBFloat16, {rows, vocab}, kGpu));
    cuda_check(cudaDeviceSynchronize());

    const LogpResult expected_last = twin(last), expected_zero = twin(zero);
    Values got(DType::kFloat32, rows), wanted(DType::kFloat32, rows);
    std::fill_n(wanted.as<float>(), rows, expected_zero.logp.as<float>()[0]);
    wanted.as<float>()[rows - 1] = expected_last.logp.as<float>()[0];
    cuda_check(cudaMemcpy(got.bytes.data(), logp.data(), got.bytes.size(), cudaMemcpyDeviceToHost));
    EXPECT_TRUE(same_bits(wanted, got)) << rows << " x " << vocab;
    Values row(DType::kBFloat16, vocab);
    const auto grad_row = [&](std::int64_t i) {
      cuda_check(cudaMemcpy(row.bytes.data(), grad.data() + 2 * i * vocab, row.bytes.size(),
                            cudaMemcpyDeviceToHost));
      return row;
    };
    EXPECT_TRUE(same_bits(expected_last.grad, grad_row(rows - 1))) << rows << " x " << vocab;
    for (const std::int64_t i : {std::int64_t{0}, rows / 2, rows - 2})
      EXPECT_TRUE(same_bits(expected_zero.grad, grad_row(i))) << rows << " x " << vocab;
  }
}

// So many rows that none is cut, so long that the statistics of a whole one fill a CTA's memory. They are one row in
// memory, with stride 0.
TEST(CudaExecution, many_rows_of_the_longest_kind_equal_the_twin) {
  struct Long {
    DType dtype;
    std::int64_t vocab;
  };
  for (const auto& [dtype, vocab] :
       {Long{DType::kFloat64, 262144}, Long{DType::kFloat32, 524288}, Long{DType::kBFloat16, 524288}}) {
    const std::int64_t rows = 1100;
    const LogpCase c = normal_case(1, vocab, dtype == DType::kFloat64 ? DType::kFloat32 : dtype);
    LogpCase one = plain_case(1, vocab, dtype);
    for (std::int64_t i = 0; i < vocab; ++i) set_element(one.logits, i, element_value(c.logits, i));
    one.targets = c.targets;
    const LogpResult expected = twin(one);
    const std::int64_t size = dtype_size(one.real());
    DeviceBytes logits(one.logits.bytes.size()), ids(8), logp(static_cast<std::size_t>(rows * size)),
        entropy(static_cast<std::size_t>(rows * size));
    cuda_check(
        cudaMemcpy(logits.data(), one.logits.bytes.data(), one.logits.bytes.size(), cudaMemcpyHostToDevice));
    cuda_check(cudaMemcpy(ids.data(), one.targets.data(), 8, cudaMemcpyHostToDevice));
    LogpOutputs outputs;
    outputs.logp = TensorView(logp.data(), one.real(), {rows}, kGpu);
    outputs.entropy = TensorView(entropy.data(), one.real(), {rows}, kGpu);
    logp_forward(ConstTensorView(logits.data(), dtype, {rows, vocab}, {0, 1}, kGpu),
                 ConstTensorView(ids.data(), DType::kInt64, {rows}, {0}, kGpu), {}, outputs);
    for (const auto& [bytes, wanted] : {std::pair{&logp, &expected.logp}, {&entropy, &expected.entropy}}) {
      Values got(one.real(), rows);
      cuda_check(cudaDeviceSynchronize());
      cuda_check(cudaMemcpy(got.bytes.data(), bytes->data(), got.bytes.size(), cudaMemcpyDeviceToHost));
      EXPECT_TRUE(
          same_bits(take(*wanted, 1, std::vector<std::int64_t>(static_cast<std::size_t>(rows), 0)), got));
    }
  }
}

// A2: one finite logit among -inf, wherever it lies.
TEST(CudaExecution, masked_vocabulary_gives_exactly_zero) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const std::int64_t at : {0, 1023, 1024, 50000, 99999}) {
      LogpCase c = plain_case(1, 100000, dtype);
      for (std::int64_t i = 0; i < c.vocab; ++i) set_element(c.logits, i, -INFINITY);
      set_element(c.logits, at, 10);
      c.targets = {at};
      c.grad_logp = Values(DType::kFloat32, 1);
      set_element(c.grad_logp, 0, 1);
      const LogpResult expected = twin(c);
      DeviceResidence residence;
      const LogpResult actual = run_case(c, expected, {}, {}, residence);
      ASSERT_TRUE(same_result(expected, actual));
      EXPECT_EQ(element_value(actual.logp, 0), 0.0);
      for (std::int64_t i = 0; i < c.vocab; ++i) ASSERT_EQ(element_value(actual.grad, i), 0.0);
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
  cuda_check(cudaDeviceSynchronize());

  PlanRequest request;
  request.device = kGpu;
  const Plan plan = samebits::plan(request);
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_EQ(plan.backend, "cuda");
  EXPECT_TRUE(plan.kernels.at(0).starts_with("logp_forward/cuda-sm")) << plan.kernels.at(0);
  request.op = "matmul";
  EXPECT_FALSE(samebits::plan(request).refusals.empty());
  request.op = "logp";
  request.device.index = 1000;
  EXPECT_FALSE(samebits::plan(request).refusals.empty());
}

TEST(CudaExecution, row_sum_equals_the_twin) {
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(0x5a3u + static_cast<std::uint64_t>(i));
    const std::int64_t rows = rng.between(0, 6);
    const std::int64_t columns = rng.chance(20) ? rng.between(1, 600000) : rng.between(0, 1000);
    Values values(rng.pick({DType::kFloat32, DType::kFloat64}), rows * columns);
    for (std::int64_t row = 0; row < rows && columns > 0; ++row)
      random_logits(rng, values, row * columns, columns);
    RowSumLayout layout;
    layout.values.gap = rng.pick<std::int64_t>({0, 1, 5});
    layout.values.offset = rng.below(5);
    layout.values.reversed = rng.chance(3);
    layout.sums.gap = rng.pick<std::int64_t>({0, 2});
    layout.with_workspace = rng.chance(2);
    DeviceResidence residence;
    ASSERT_TRUE(same_bits(row_sum_twin(values, rows), row_sum_call(values, rows, layout, {}, residence),
                          Finite::kPerhapsNone));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace samebits::test
