// Unusual sizes and rows on a GPU: beyond 32 bits, the longest, masked; and row_sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device.h"
#include "random_case.h"
#include "row_sum_case.h"

namespace samebits::test {
namespace {

// A1: rows * vocab beyond 2^31, and more rows than a grid's y or z dimension holds.
TEST(CudaSizes, offsets_and_row_numbers_beyond_32_and_16_bits) {
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
TEST(CudaSizes, many_rows_of_the_longest_kind_equal_the_twin) {
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
TEST(CudaSizes, masked_vocabulary_gives_exactly_zero) {
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

TEST(CudaSizes, row_sum_equals_the_twin) {
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
