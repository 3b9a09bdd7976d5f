#include "cli/selftest_product.h"

#include <cinttypes>
#include <cstdio>
#include <numeric>

#include "cli/digest.h"
#include "cli/twin.h"

namespace samebits::cli {
namespace {

// Recorded from the scalar twin by `samebits selftest --print-golden`.
constexpr ProductGolden kGolden[] = {
    {DType::kFloat32, false, 300, 0x6132800de66e77e0},   {DType::kFloat32, false, 20000, 0xb9a24884e3e3d4d2},
    {DType::kBFloat16, false, 300, 0x3e34481aec9ec1bb},  {DType::kFloat16, false, 300, 0x56c5c0bf91b831c9},
    {DType::kFloat64, false, 20000, 0x8c816828d54ced29}, {DType::kBFloat16, true, 20000, 0xb3b26fcdba866975},
    {DType::kFloat16, true, 20000, 0xdac18399da93d45c},
};

std::vector<std::byte> elements(std::int64_t count, DType dtype) {
  return std::vector<std::byte>(static_cast<std::size_t>(count * dtype_size(dtype)));
}

std::vector<std::byte> random_operand(Random& random, std::int64_t count, DType dtype) {
  std::vector<std::byte> data = elements(count, dtype);
  const double scale = random.below(3) == 0 ? 100 : 1;
  const bool with_specials = random.below(16) == 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = random.signed_unit() * scale;
    store_element(data, dtype, i, with_specials && random.below(50) == 0 ? value * 1e300 * 1e300 : value);
  }
  return data;
}

ConstTensorView view_a(const ProductCase& test) {
  return {test.a.data(), test.dtype, {test.rows, test.depth}};
}
ConstTensorView view_weight(const ProductCase& test) {
  return {test.b.data(), test.dtype, {test.columns, test.depth}};
}

// The weight's transpose, as the product takes it.
ConstTensorView view_b(const ProductCase& test) {
  return {test.b.data(), test.dtype, {test.depth, test.columns}, {1, test.depth}};
}
TensorView view_out(const ProductCase& test, std::vector<std::byte>& out) {
  return {out.data(), test.out_dtype, {test.rows, test.columns}};
}

// What the rows of a head are computed and returned in.
DType real_of(const ProductCase& test) {
  return test.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

std::vector<std::int64_t> linear_targets(const ProductCase& test) {
  std::vector<std::int64_t> targets(static_cast<std::size_t>(test.rows));
  for (std::int64_t row = 0; row < test.rows; ++row)
    targets[static_cast<std::size_t>(row)] = row % test.columns;
  return targets;
}

}  // namespace

std::string ProductCase::text() const {
  const std::string depths = ", " + std::to_string(depth) + "]";
  return std::string(dtype_name(dtype)) + " [" + std::to_string(rows) + depths + " and [" +
         std::to_string(columns) + depths + ", out " + std::string(dtype_name(out_dtype)) +
         (tc16 ? ", tc16" : "");
}

ProductCase random_product_case(Random& random) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64};
  constexpr std::int64_t kDepths[] = {0, 1, 2, 17, 64, 300};
  ProductCase test;
  test.dtype = kTypes[random.below(4)];
  const bool half = test.dtype == DType::kBFloat16 || test.dtype == DType::kFloat16;
  test.out_dtype = half && random.below(2) == 0 ? DType::kFloat32 : test.dtype;
  test.tc16 = half && random.below(3) != 0;
  test.rows = 1 + random.below(9);
  test.columns = 1 + random.below(70);
  test.depth = random.below(30) == 0 ? 8192 + random.below(3) : kDepths[random.below(std::size(kDepths))];
  test.a = random_operand(random, test.rows * test.depth, test.dtype);
  test.b = random_operand(random, test.columns * test.depth, test.dtype);
  return test;
}

std::vector<std::byte> product_by_library(const ProductCase& test, const ExecContext& context) {
  std::vector<std::byte> out = elements(test.rows * test.columns, test.out_dtype);
  MatmulOptions options;
  options.contract = test.tc16 ? "tc16" : "fma";
  matmul(view_a(test), view_b(test), view_out(test, out), options, context);
  return out;
}

std::vector<std::byte> product_by_twin(const ProductCase& test) {
  std::vector<std::byte> out = elements(test.rows * test.columns, test.out_dtype);
  MatmulOptions options;
  options.contract = test.tc16 ? "tc16" : "fma";
  twin_matmul(view_a(test), view_b(test), view_out(test, out), options);
  return out;
}

std::vector<std::byte> linear_logp_by_library(const ProductCase& test, const ExecContext& context) {
  std::vector<std::byte> out = elements(test.rows, real_of(test));
  const std::vector<std::int64_t> targets = linear_targets(test);
  LogpOutputs outputs;
  outputs.logp = TensorView(out.data(), real_of(test), {test.rows});
  MatmulOptions options;
  options.contract = test.tc16 ? "tc16" : "fma";
  linear_logp_forward(view_a(test), view_weight(test),
                      ConstTensorView(targets.data(), DType::kInt64, {test.rows}), {}, {}, outputs, options,
                      context);
  return out;
}

std::vector<std::byte> linear_logp_by_twin(const ProductCase& test) {
  const DType real = real_of(test);
  ProductCase wide = test;
  wide.out_dtype = real;
  const std::vector<std::byte> logits = product_by_twin(wide);
  std::vector<std::byte> out = elements(test.rows, real);
  const std::vector<std::int64_t> targets = linear_targets(test);
  LogpOutputs outputs;
  outputs.logp = TensorView(out.data(), real, {test.rows});
  twin_forward(ConstTensorView(logits.data(), real, {test.rows, test.columns}),
               ConstTensorView(targets.data(), DType::kInt64, {test.rows}), {}, outputs);
  return out;
}

std::span<const ProductGolden> product_goldens() { return kGolden; }

ProductCase product_golden_case(const ProductGolden& golden) {
  ProductCase test;
  test.dtype = test.out_dtype = golden.dtype;
  test.tc16 = golden.tc16;
  test.rows = 3;
  test.columns = 5;
  test.depth = golden.depth;
  const auto fill = [&](std::int64_t count, std::uint32_t salt) {
    std::vector<std::byte> data = elements(count, golden.dtype);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto mixed = static_cast<std::uint32_t>((i + salt) * 2654435761);
      store_element(data, golden.dtype, i, (mixed >> 24) / 16.0 - 7);  // exact in every element type
    }
    return data;
  };
  test.a = fill(test.rows * test.depth, 1);
  test.b = fill(test.columns * test.depth, 7);
  return test;
}

ProductGolden product_golden_of(const ProductGolden& golden, const std::vector<std::byte>& output) {
  return {golden.dtype, golden.tc16, golden.depth, row_digest(output)};
}

std::string product_golden_text(const ProductGolden& golden) {
  char text[120];
  std::snprintf(text, sizeof text, "{DType::%s, %s, %" PRId64 ", 0x%016" PRIx64 "},",
                dtype_enumerator(golden.dtype), golden.tc16 ? "true" : "false", golden.depth, golden.digest);
  return text;
}

}  // namespace samebits::cli
