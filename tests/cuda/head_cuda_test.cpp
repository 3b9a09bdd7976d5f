// linear_logp on the GPU = the CPU's: contracts, dtypes, options, layouts, edges and sizes.
#include <gtest/gtest.h>

#include "device.h"
#include "head_random.h"

namespace samebits::test {
namespace {

LogpResult on_cpu(const HeadCase& head, const WantedRows& wanted = {}) {
  Residence host;
  return head_forward(head, {}, wanted, host);
}
LogpResult on_gpu(const HeadCase& head, const WantedRows& wanted = {}) {
  DeviceResidence device;
  return head_forward(head, {}, wanted, device);
}

TEST(CudaHead, random_calls_equal_the_cpu) {
  int failures = 0;
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0x4ead);
    const DType dtype =
        rng.pick({DType::kFloat32, DType::kBFloat16, DType::kBFloat16, DType::kFloat16, DType::kFloat64});
    // Half of the heads are such as engines with conditions take.
    const bool plain = rng.chance(2);
    const std::int64_t size = plain ? 2 * rng.between(1, 48) : rng.between(1, 90);
    HeadCase head = random_head_case(rng, rng.between(1, 70), rng.between(1, 700), size, dtype);
    if (rng.chance(4)) head.contract = "fma";
    vary_head(head, rng);
    if (plain) head.weight_lay = Lay::kWholeRows;
    const WantedRows wanted{!rng.chance(4), rng.chance(2), !rng.chance(4)};
    EXPECT_TRUE(same_result(on_cpu(head, wanted), on_gpu(head, wanted), Finite::kPerhapsNone))
        << head_text(head);
    if (HasFailure() && ++failures == 5) return;  // the rest would tell nothing new
  }
}

// One row, whole and part tiles, more rows than a chunk and than a CTA of the row list.
TEST(CudaHead, row_counts_equal_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kFloat64})
    for (const std::int64_t rows : {1, 7, 64, 255, 257, 1025, 9000}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows));
      Rng rng(static_cast<std::uint64_t>(rows));
      HeadCase head = random_head_case(rng, rows, rows > 2000 ? 260 : 1000, 24, dtype);
      for (std::int64_t row = 0; row < rows; row += 5)
        head.logp.targets[static_cast<std::size_t>(row)] = -100;
      EXPECT_TRUE(same_result(on_cpu(head), on_gpu(head)));
    }
}

// Vocabularies that are cut into tiles, with and without a last block that is short; hidden sizes of several segments.
TEST(CudaHead, long_vocabularies_and_hidden_sizes_equal_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    for (const auto& [rows, vocab, size] :
         {std::array<std::int64_t, 3>{1, 131072, 40}, {3, 50257, 33}, {130, 32001, 8}, {5, 300, 16500}}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", V " + std::to_string(vocab));
      Rng rng(static_cast<std::uint64_t>(vocab));
      const HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
      EXPECT_TRUE(same_result(on_cpu(head), on_gpu(head)));
    }
}

TEST(CudaHead, edge_rows_equal_the_cpu) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    for (const std::int64_t size : {6, 8})
      for (const char* edge : kHeadEdges) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + ", " + edge + ", H " + std::to_string(size));
        const HeadCase head = edge_head_case(edge, dtype, size);
        EXPECT_TRUE(same_result(on_cpu(head), on_gpu(head), Finite::kPerhapsNone));
      }
}

// Rows see neither the batch nor how it is cut.
TEST(CudaHead, a_row_alone_has_the_bits_it_has_in_a_batch) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    Rng rng(14);
    const HeadCase head = random_head_case(rng, 300, 444, 56, dtype);
    const LogpResult all = on_gpu(head);
    for (const std::int64_t rows : {1, 2, 17, 64, 255, 256}) {
      std::vector<std::int64_t> picked;
      for (std::int64_t i = 0; i < rows; ++i) picked.push_back(299 - i * 299 / rows);
      EXPECT_TRUE(same_bits(take(all.logp, 1, picked), on_gpu(take_rows(head, picked)).logp)) << rows;
    }
  }
}

TEST(CudaHead, a_workspace_of_the_right_size_is_used) {
  Rng rng(3);
  const HeadCase head = random_head_case(rng, 40, 500, 24, DType::kBFloat16);
  const LogpResult expected = on_cpu(head);
  for (const std::size_t bytes : {std::size_t{1} << 26, std::size_t{100}}) {
    DeviceResidence device;
    ExecContext context;
    context.workspace = device.workspace(bytes);
    EXPECT_TRUE(same_result(expected, head_forward(head, context, {}, device)));
  }
}

}  // namespace
}  // namespace samebits::test
