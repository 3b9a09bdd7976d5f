// Products on the GPU: every engine gives the bits of the CPU, whatever the sizes, strides, options and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "cuda/launch/product.h"
#include "product_call.h"
#include "recorded.h"

namespace samebits::test {
namespace {

constexpr DType kOperands[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64};

bool is_half(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

// What is chosen, and every engine by name.
std::vector<std::string> backends() {
  std::vector<std::string> names = {"auto"};
  for (const cuda::ProductEngine& engine : cuda::product_engines()) names.push_back(engine.name);
  return names;
}
std::vector<std::string> own_backends() {
  std::vector<std::string> names = backends();
  std::erase(names, "cublaslt");
  return names;
}

// Runs the call through the engine; false where the engine refuses it.
bool runs(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype, const ProductCall& call,
          const ConstTensorView& bias, Values& result) {
  try {
    result = product_on_gpu(a, b, out_dtype, call, bias);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    EXPECT_EQ(error.argument(), "backend") << error.what();
    return false;
  }
}

// One random call of any contract, against the CPU, through whatever is chosen and through the engines by name.
struct RandomCounts {
  int products = 0, through_cublaslt = 0;
};
void random_product(std::uint64_t seed, std::int64_t most, std::int64_t most_depth, RandomCounts& counts,
                    const std::vector<std::string>& through = backends()) {
  Rng rng(seed);
  const DType dtype = rng.pick({kOperands[0], kOperands[1], kOperands[2], kOperands[3]});
  const DType out_dtype = is_half(dtype) && rng.chance(2) ? DType::kFloat32 : dtype;
  const std::string contract = rng.chance(3) ? "fma" : "auto";
  const std::int64_t step = rng.pick<std::int64_t>({1, 1, 8});  // vectors fit, or hardly ever
  const auto extent = [&](std::int64_t limit) { return rng.between(0, limit / step) * step; };
  const std::int64_t rows = extent(most), columns = extent(most), depth = extent(most_depth);
  const bool plain = rng.chance(2);  // layouts that vectors can be read from
  const auto lay = [&] { return plain ? Lay::kDense : kLays[rng.below(7)]; };
  const bool tall = rng.chance(2), wide = rng.chance(2);  // operands seen as transposes
  const Matrix a(random_elements(rng, dtype, rows * depth), tall ? depth : rows, tall ? rows : depth, lay());
  const Matrix b(random_elements(rng, dtype, depth * columns), wide ? columns : depth, wide ? depth : columns,
                 lay());
  const ConstTensorView left = tall ? a.transposed() : a.view(), right = wide ? b.transposed() : b.view();
  const Matrix bias_row(random_elements(rng, dtype, columns), 1, columns, lay());
  ConstTensorView bias;
  if (rng.chance(3))
    bias = ConstTensorView(bias_row.view().data, dtype, {columns}, {bias_row.view().strides[1]});
  const Values expected = product_on_cpu(left, right, out_dtype, contract, bias);
  for (const std::string& backend : through) {
    Values actual;
    if (!runs(left, right, out_dtype, {contract, backend, rng.chance(2)}, bias, actual)) continue;
    ++counts.products;
    counts.through_cublaslt += backend == "cublaslt";
    EXPECT_TRUE(same_bits(expected, actual, Finite::kPerhapsNone))
        << "seed " << seed << ": " << rows << " x " << depth << " x " << columns << " " << dtype_name(dtype)
        << " to " << dtype_name(out_dtype) << ", contract " << contract << ", backend " << backend
        << ", strides " << left.strides[0] << " " << left.strides[1] << " and " << right.strides[0] << " "
        << right.strides[1] << (bias ? ", bias" : "");
  }
}

TEST(CudaProducts, random_products_equal_the_cpu) {
  RandomCounts counts;
  for (std::uint64_t seed = 0; seed < 2500 && !HasFailure(); ++seed) random_product(seed, 300, 400, counts);
  EXPECT_GE(counts.products, 4000);
  EXPECT_GE(counts.through_cublaslt, 100);
  RecordProperty("products", counts.products);
  RecordProperty("through_cublaslt", counts.through_cublaslt);
}

TEST(CudaProducts, random_long_sums_equal_the_cpu) {
  RandomCounts counts;
  for (std::uint64_t seed = 0; seed < 80 && !HasFailure(); ++seed)
    random_product(seed + 100000, 24, 40000, counts);
}

class CudaProductEngine : public ::testing::TestWithParam<const char*> {
 protected:
  // The product through this engine; tc16 of bfloat16 unless the engine computes fma.
  static bool simt() { return std::string(GetParam()) == "simt"; }
  static ProductCall call() { return {simt() ? "fma" : "tc16", GetParam(), true}; }
  // Those two take the shapes and strides that suit them.
  static bool selective() {
    return std::string(GetParam()) == "sm90" || std::string(GetParam()) == "cublaslt";
  }
  static DType dtype() { return simt() ? DType::kFloat32 : DType::kBFloat16; }
};

// Rows and columns that fill, miss and pass tiles, in every type of out.
TEST_P(CudaProductEngine, every_tile_edge_equals_the_cpu) {
  constexpr std::int64_t kMost = 400, kDepth = 72;
  Rng rng(7);
  const Matrix a(normal_elements(rng, dtype(), kMost * kDepth), kMost, kDepth);
  const Matrix b(normal_elements(rng, dtype(), kMost * kDepth), kMost, kDepth);
  for (const DType out_dtype : std::set{DType::kFloat32, dtype()}) {
    const Values all = product_on_cpu(a.view(), b.transposed(), out_dtype, call().contract);
    const std::int64_t bytes = dtype_size(out_dtype);
    for (const std::int64_t rows : {1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 257, 400})
      for (const std::int64_t columns : {1, 2, 7, 8, 9, 16, 33, 64, 96, 127, 128, 129, 192, 200, 384, 400}) {
        ConstTensorView left = a.view(), right = b.transposed();
        left.shape[0] = rows;
        right.shape[1] = columns;
        Values expected(out_dtype, rows * columns), actual;
        for (std::int64_t i = 0; i < rows; ++i)
          std::copy_n(all.bytes.data() + i * kMost * bytes, columns * bytes,
                      expected.bytes.data() + i * columns * bytes);
        if (runs(left, right, out_dtype, call(), {}, actual))
          EXPECT_TRUE(same_bits(expected, actual))
              << rows << " x " << columns << " " << dtype_name(out_dtype);
        else
          EXPECT_TRUE(selective());
        if (HasFailure()) return;
      }
  }
}

// Ends of steps, stages and segments.
TEST_P(CudaProductEngine, every_depth_equals_the_cpu) {
  for (const std::int64_t depth :
       {0,   1,   2,   8,   15,   16,   17,   31,   32,   63,   64,    65,    127,   128,
        192, 200, 256, 320, 8128, 8184, 8191, 8192, 8193, 8200, 16384, 24584, 65536, 131072}) {
    SCOPED_TRACE("K = " + std::to_string(depth));
    Rng rng(static_cast<std::uint64_t>(depth));
    const Matrix a(normal_elements(rng, dtype(), 5 * depth), 5, depth);
    const Matrix b(normal_elements(rng, dtype(), 40 * depth), 40, depth);
    const Values expected = product_on_cpu(a.view(), b.transposed(), dtype(), call().contract);
    Values actual;
    if (runs(a.view(), b.transposed(), dtype(), call(), {}, actual))
      EXPECT_TRUE(same_bits(expected, actual, depth > 0 ? Finite::kSome : Finite::kPerhapsNone));
    else
      EXPECT_TRUE(selective());
  }
}

// field-failures A14: the engine must not choose its order by the batch.
TEST_P(CudaProductEngine, a14_row_zero_does_not_see_the_batch) {
  constexpr std::int64_t kDepth = 2688, kColumns = 1024, kMost = 4096;
  Rng rng(14);
  const Matrix a(normal_elements(rng, dtype(), kMost * kDepth), kMost, kDepth);
  const Matrix b(normal_elements(rng, dtype(), kColumns * kDepth), kColumns, kDepth);
  ConstTensorView alone = a.view();
  alone.shape[0] = 1;
  const Values expected = product_on_cpu(alone, b.transposed(), DType::kFloat32, call().contract);
  for (const std::int64_t rows :
       {1, 2, 3, 7, 16, 17, 32, 33, 64, 65, 128, 255, 256, 257, 512, 1024, 2048, 4096}) {
    ConstTensorView batch = a.view();
    batch.shape[0] = rows;
    Values row;
    if (!runs(batch, b.transposed(), DType::kFloat32, call(), {}, row)) {
      EXPECT_TRUE(selective());
      continue;
    }
    row.bytes.resize(expected.bytes.size());
    EXPECT_TRUE(same_bits(expected, row)) << rows << " rows";
  }
}

TEST_P(CudaProductEngine, a_whole_product_of_usual_size_equals_the_cpu) {
  constexpr std::int64_t kRows = 304, kDepth = 2688, kColumns = 520;
  for (const Lay lay_a : {Lay::kDense, Lay::kTransposed})
    for (const Lay lay_b : {Lay::kDense, Lay::kTransposed}) {
      Rng rng(3);
      const Matrix a(normal_elements(rng, dtype(), kRows * kDepth), kRows, kDepth, lay_a);
      const Matrix b(normal_elements(rng, dtype(), kDepth * kColumns), kDepth, kColumns, lay_b);
      const Values expected = product_on_cpu(a.view(), b.view(), dtype(), call().contract);
      Values actual;
      if (!runs(a.view(), b.view(), dtype(), call(), {}, actual)) {
        EXPECT_TRUE(selective());
        continue;
      }
      EXPECT_TRUE(same_bits(expected, actual))
          << "layouts " << static_cast<int>(lay_a) << " and " << static_cast<int>(lay_b);
    }
}

// Each way of storing (product_on_gpu goes by the parity of rows + columns), with what may come on top of the last segment.
TEST_P(CudaProductEngine, sums_of_segments_with_a_bias_equal_the_cpu) {
  for (const auto& [rows, columns] : {std::array<std::int64_t, 2>{17, 203}, {18, 203}, {130, 192}, {131, 70}})
    for (const std::int64_t depth : {200, 8200})
      for (const bool biased : {false, true}) {
        Rng rng(static_cast<std::uint64_t>(rows + depth));
        const Matrix a(normal_elements(rng, dtype(), rows * depth), rows, depth);
        const Matrix b(normal_elements(rng, dtype(), columns * depth), columns, depth);
        const Values bias_values = normal_elements(rng, dtype(), 2 * columns);
        const ConstTensorView bias =
            biased ? ConstTensorView(bias_values.bytes.data(), dtype(), {columns}, {2}) : ConstTensorView();
        const Values expected = product_on_cpu(a.view(), b.transposed(), dtype(), call().contract, bias);
        Values actual;
        if (runs(a.view(), b.transposed(), dtype(), call(), bias, actual))
          EXPECT_TRUE(same_bits(expected, actual))
              << rows << " x " << depth << " x " << columns << (biased ? ", bias" : "");
        else
          EXPECT_TRUE(selective());
      }
}

// The stride of an axis of one element means nothing, and may not even be even.
TEST_P(CudaProductEngine, a_single_row_or_column_has_any_stride) {
  for (const std::int64_t depth : {8, 77, 200}) {
    Rng rng(static_cast<std::uint64_t>(depth));
    const Matrix a(normal_elements(rng, dtype(), depth), 1, depth);
    const Matrix b(normal_elements(rng, dtype(), depth), 1, depth);
    const Values expected = product_on_cpu(a.view(), b.transposed(), DType::kFloat32, call().contract);
    for (const std::int64_t stride : {-3, 0, 1, 17, 4096}) {
      ConstTensorView left = a.view(), right = b.transposed();
      left.strides[0] = right.strides[1] = stride;
      Values actual;
      if (runs(left, right, DType::kFloat32, call(), {}, actual))
        EXPECT_TRUE(same_bits(expected, actual)) << "K = " << depth << ", stride " << stride;
      else
        EXPECT_TRUE(selective());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(engines, CudaProductEngine, ::testing::Values("sm90", "mma", "cublaslt", "simt"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CudaProducts, recorded_products_of_a_gpu) {
  for (const RecordedProduct& c : recorded_products()) {
    int through = 0;
    for (const std::string& backend : backends()) {
      Values actual;
      if (!runs(c.a.view(), c.rows_of_b.transposed(), DType::kFloat32, {"tc16", backend, true}, {}, actual))
        continue;
      ++through;
      EXPECT_TRUE(same_bits(c.out, actual)) << c.name << " through " << backend;
    }
    EXPECT_GE(through, 3) << c.name;
  }
}

// Small, for compute-sanitizer.
TEST(CudaSanitizer, small_shapes_of_products) {
  RandomCounts counts;
  for (std::uint64_t seed = 0; seed < 80; ++seed)
    random_product(seed + 5000, 140, 150, counts, own_backends());
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    random_product(seed + 6000, 20, 9000, counts, own_backends());
}

// By itself: racecheck reports hazards inside of the library's own kernels.
TEST(CudaSanitizer, small_shapes_through_the_library) {
  RandomCounts counts;
  for (std::uint64_t seed = 0; seed < 40; ++seed) random_product(seed + 5000, 140, 150, counts, {"cublaslt"});
}

}  // namespace
}  // namespace samebits::test
