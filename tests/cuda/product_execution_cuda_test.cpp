// How products are run on a GPU: bounds that the device holds, graphs, refusals, plans.
#include <gtest/gtest.h>

#include "cuda/launch/product_sm90.h"
#include "cuda/probe.h"
#include "device.h"
#include "product_call.h"

namespace samebits::test {
namespace {

// Matrices that stay on the device: a [M, K], b [N, K] (used as its transpose), out [M, N].
class Resident {
 public:
  Resident(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth,
           DType out_dtype = DType::kFloat32)
      : dtype_(dtype), out_dtype_(out_dtype), rows_(rows), columns_(columns), depth_(depth) {
    Rng rng(static_cast<std::uint64_t>(rows + columns + depth));
    a_values_ = normal_elements(rng, dtype, rows * depth);
    b_values_ = normal_elements(rng, dtype, columns * depth);
    a_ = upload(a_values_);
    b_ = upload(b_values_);
    out_ = std::make_unique<DeviceBytes>(static_cast<std::size_t>(rows * columns * dtype_size(out_dtype)));
  }

  void run(const ExecContext& context) {
    matmul(TensorView(a_->data(), dtype_, {rows_, depth_}, kGpu),
           ConstTensorView(b_->data(), dtype_, {depth_, columns_}, {1, depth_}, kGpu),
           TensorView(out_->data(), out_dtype_, {rows_, columns_}, kGpu), {}, context);
  }

  // The first `rows` rows over the first `depth` of k.
  Values expected(std::int64_t rows, std::int64_t depth) const {
    return product_on_cpu(ConstTensorView(a_values_.bytes.data(), dtype_, {rows, depth}, {depth_, 1}),
                          ConstTensorView(b_values_.bytes.data(), dtype_, {depth, columns_}, {1, depth_}),
                          out_dtype_);
  }

  cuda::SegmentProduct segment(bool tc16) const {
    cuda::SegmentProduct product;
    product.rows = rows_;
    product.columns = columns_;
    product.depth = depth_;
    product.a_dtype = product.b_dtype = dtype_;
    product.tc16 = tc16;
    product.a = {a_->data(), depth_, 1};
    product.b = {b_->data(), 1, depth_};
    product.out = out_->data();
    product.out_dtype = out_dtype_;
    product.out_row_stride = columns_;
    return product;
  }

  void clear() { cuda_check(cudaMemset(out_->data(), static_cast<int>(kFill), out_->span().size())); }
  Values out() const {
    Values values(out_dtype_, rows_ * columns_);
    cuda_check(cudaDeviceSynchronize());
    cuda_check(cudaMemcpy(values.bytes.data(), out_->data(), values.bytes.size(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  static std::unique_ptr<DeviceBytes> upload(const Values& values) {
    auto bytes = std::make_unique<DeviceBytes>(values.bytes.size());
    cuda_check(cudaMemcpy(bytes->data(), values.bytes.data(), values.bytes.size(), cudaMemcpyHostToDevice));
    return bytes;
  }

  DType dtype_, out_dtype_;
  std::int64_t rows_, columns_, depth_;
  Values a_values_, b_values_;
  std::unique_ptr<DeviceBytes> a_, b_, out_;
};

// Run by itself, this is the first use of the device: the probe runs while the graph is being captured.
TEST(CudaProductExecution, products_are_captured_into_a_graph) {
  for (const char* backend : {"auto", "mma", "cublaslt"}) {
    Resident resident(DType::kBFloat16, 200, 264, 10000);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ExecContext context;
    context.stream = stream;
    context.backend = backend;
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_NO_THROW(resident.run(context)) << backend;
    cuda_check(cudaStreamEndCapture(stream, &graph));
    cuda_check(cudaGraphInstantiate(&executable, graph, 0));
    const Values expected = resident.expected(200, 10000);
    for (int replay = 0; replay < 3; ++replay) {
      resident.clear();
      cuda_check(cudaGraphLaunch(executable, stream));
      EXPECT_TRUE(same_bits(expected, resident.out())) << backend;
    }
    cuda_check(cudaGraphExecDestroy(executable));
    cuda_check(cudaGraphDestroy(graph));
    cuda_check(cudaStreamDestroy(stream));
  }
}

// Rows beyond the device's number are left alone, k beyond it does not count.
TEST(CudaProductExecution, bounds_on_the_device_cut_rows_and_depth) {
  constexpr std::int64_t kRows = 300, kColumns = 200, kDepth = 520;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    Resident resident(dtype, kRows, kColumns, kDepth);
    DeviceBytes bounds(8);
    for (const std::int32_t row_bound : {-5, 0, 1, 128, 129, 299, 400})
      for (const std::int32_t depth_bound : {0, 1, 7, 64, 513, 1000}) {
        const std::int32_t host[] = {row_bound + 40, depth_bound + 9};
        cuda_check(cudaMemcpy(bounds.data(), host, 8, cudaMemcpyHostToDevice));
        cuda::SegmentProduct product = resident.segment(dtype != DType::kFloat32);
        product.row_bound = reinterpret_cast<const std::int32_t*>(bounds.data());
        product.depth_bound = product.row_bound + 1;
        product.row_first = 40;
        product.depth_first = 9;
        resident.clear();
        core::DeviceCall call;
        call.device = kGpu;
        cuda::segment_product(product, call);
        const std::int64_t rows = std::clamp<std::int64_t>(row_bound, 0, kRows);
        const Values part = resident.expected(rows, std::min<std::int64_t>(depth_bound, kDepth));
        Values expected(DType::kFloat32, kRows * kColumns, kFill);
        std::copy(part.bytes.begin(), part.bytes.end(), expected.bytes.begin());
        ASSERT_TRUE(same_bits(expected, resident.out()))
            << dtype_name(dtype) << " rows " << row_bound << " depth " << depth_bound;
      }
  }
}

// Of a product on SM90 too, whose copy engine knows only where the matrix ends.
TEST(CudaProductExecution, bounds_on_the_device_cut_rounded_rows_on_sm90) {
  constexpr std::int64_t kRows = 300, kColumns = 200, kDepth = 520;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    Resident resident(dtype, kRows, kColumns, kDepth, dtype);
    DeviceBytes bound(4);
    for (const std::int32_t row_bound : {-5, 0, 1, 17, 128, 129, 299, 400}) {
      const std::int32_t host = row_bound + 40;
      cuda_check(cudaMemcpy(bound.data(), &host, 4, cudaMemcpyHostToDevice));
      cuda::Product product = resident.segment(true);
      product.row_bound = reinterpret_cast<const std::int32_t*>(bound.data());
      product.row_first = 40;
      core::DeviceCall call;
      call.device = kGpu;
      if (!cuda::no_sm90_product(product, kGpu).empty()) return;  // not of this GPU
      resident.clear();
      cuda::product_sm90(product, call);
      const std::int64_t rows = std::clamp<std::int64_t>(row_bound, 0, kRows);
      const Values part = resident.expected(rows, kDepth);
      Values expected(dtype, kRows * kColumns, kFill);
      std::copy(part.bytes.begin(), part.bytes.end(), expected.bytes.begin());
      ASSERT_TRUE(same_bits(expected, resident.out())) << dtype_name(dtype) << " rows " << row_bound;
    }
  }
}

// P is float32 under fma where the weight is of a 16-bit type.
TEST(CudaProductExecution, mixed_operands_are_widened_exactly) {
  Rng rng(5);
  const Values wide = random_elements(rng, DType::kFloat32, 70 * 90);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Values narrow = normal_elements(rng, dtype, 90 * 50);
    Values widened(DType::kFloat32, 90 * 50);
    for (std::int64_t i = 0; i < 90 * 50; ++i)
      widened.as<float>()[i] = static_cast<float>(element_value(narrow, i));
    DeviceBytes a(wide.bytes.size()), b(narrow.bytes.size()), out(70 * 50 * 4);
    cuda_check(cudaMemcpy(a.data(), wide.bytes.data(), wide.bytes.size(), cudaMemcpyHostToDevice));
    cuda_check(cudaMemcpy(b.data(), narrow.bytes.data(), narrow.bytes.size(), cudaMemcpyHostToDevice));
    core::DeviceCall call;
    call.device = kGpu;
    cuda::SegmentProduct product;
    product.depth = 90;
    product.out = out.data();
    for (const bool swapped : {false, true}) {  // out is 70 x 50, or its transpose
      product.rows = swapped ? 50 : 70;
      product.columns = product.out_row_stride = swapped ? 70 : 50;
      product.a_dtype = swapped ? dtype : DType::kFloat32;
      product.b_dtype = swapped ? DType::kFloat32 : dtype;
      product.a = swapped ? core::Operand{b.data(), 1, 50} : core::Operand{a.data(), 90, 1};
      product.b = swapped ? core::Operand{a.data(), 1, 90} : core::Operand{b.data(), 50, 1};
      cuda::segment_product(product, call);
      const ConstTensorView left(wide.bytes.data(), DType::kFloat32, {70, 90});
      const ConstTensorView right(widened.bytes.data(), DType::kFloat32, {90, 50});
      ConstTensorView left_t(left.data, DType::kFloat32, {90, 70}, {1, 90});
      ConstTensorView right_t(right.data, DType::kFloat32, {50, 90}, {1, 50});
      const Values expected = swapped ? product_on_cpu(right_t, left_t, DType::kFloat32)
                                      : product_on_cpu(left, right, DType::kFloat32);
      Values actual(DType::kFloat32, 70 * 50);
      cuda_check(cudaDeviceSynchronize());
      cuda_check(cudaMemcpy(actual.bytes.data(), out.data(), actual.bytes.size(), cudaMemcpyDeviceToHost));
      EXPECT_TRUE(same_bits(expected, actual, Finite::kPerhapsNone)) << dtype_name(dtype) << " " << swapped;
    }
  }
}

TEST(CudaProductExecution, the_probe_passes_through_every_engine) {
  for (const cuda::ProductEngine& engine : cuda::product_engines()) {
    if (!engine.tensor_cores) continue;
    const cuda::ProbeResult& result = cuda::probe(engine, kGpu);
    EXPECT_TRUE(result.passed) << engine.name << " " << result.text;
  }
  EXPECT_NO_THROW(cuda::require_tc16(kGpu));
}

TEST(CudaProductExecution, engines_refuse_with_reasons) {
  DeviceBytes memory(1 << 16);
  const auto refusal = [&](const char* backend, DType dtype, std::int64_t stride) -> std::string {
    ExecContext context;
    context.backend = backend;
    std::byte* data = memory.data();
    try {
      matmul(ConstTensorView(data, dtype, {8, 16}, {stride, 1}, kGpu),
             ConstTensorView(data + 8192, dtype, {16, 8}, kGpu),
             TensorView(data + 16384, dtype, {8, 8}, kGpu), {}, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const char* backend : {"auto", "cuda", "mma", "cublaslt"})
    EXPECT_EQ(refusal(backend, DType::kBFloat16, 16), "");
  for (const char* backend : {"auto", "cuda", "simt"}) EXPECT_EQ(refusal(backend, DType::kFloat32, 16), "");
  EXPECT_EQ(
      refusal("mma", DType::kFloat32, 16),
      "backend: is 'mma', which cannot run this product: it computes contract='tc16' alone; may be 'auto' or "
      "'cuda'");
  EXPECT_NE(refusal("cublaslt", DType::kBFloat16, 17).find("a has a stride of 17 elements"),
            std::string::npos)
      << refusal("cublaslt", DType::kBFloat16, 17);
  EXPECT_NE(refusal("", DType::kFloat32, 16).find("is '' with operands on cuda:0; may be 'auto', 'cuda', "),
            std::string::npos)
      << refusal("", DType::kFloat32, 16);
  EXPECT_NE(refusal("avx2", DType::kFloat32, 16).find("may be 'auto', 'cuda', "), std::string::npos)
      << refusal("avx2", DType::kFloat32, 16);
  cuda_check(cudaDeviceSynchronize());
}

TEST(CudaProductExecution, plans_name_engine_and_probe) {
  PlanRequest request;
  request.op = "matmul";
  request.device = kGpu;
  request.dtype = DType::kBFloat16;
  Plan plan = samebits::plan(request);
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_EQ(plan.backend, "cuda");
  EXPECT_NE(plan.provenance_json.find("\"device_probe\": \"passed: "), std::string::npos)
      << plan.provenance_json;
  EXPECT_NE(plan.provenance_json.find("cublaslt"), std::string::npos) << plan.provenance_json;
  std::printf("%s\n", plan.provenance_json.c_str());
  request.backend = "cublaslt";
  plan = samebits::plan(request);
  EXPECT_TRUE(plan.refusals.empty()) << plan.refusals.at(0);
  EXPECT_TRUE(plan.kernels.at(0).ends_with("-cublaslt")) << plan.kernels.at(0);
  request.contract = "fma";
  EXPECT_FALSE(samebits::plan(request).refusals.empty());
  request.backend = "auto";
  plan = samebits::plan(request);
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_EQ(plan.provenance_json.find("device_probe"), std::string::npos) << plan.provenance_json;
}

}  // namespace
}  // namespace samebits::test
