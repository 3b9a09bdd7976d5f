// Gradients of linear_logp on the GPU = the CPU's: contracts, dtypes, options, layouts, edges, sizes, what is asked for.
#include <gtest/gtest.h>

#include "device.h"
#include "head_random.h"

namespace samebits::test {
namespace {

HeadGradients on_cpu(const HeadCase& head, const Wanted& wanted = {}) {
  Residence host;
  return head_gradients(head, ExecContext{}, wanted, host);
}
HeadGradients on_gpu(const HeadCase& head, const Wanted& wanted = {}) {
  DeviceResidence device;
  return head_gradients(head, ExecContext{}, wanted, device);
}

TEST(CudaHeadGradient, random_calls_equal_the_cpu) {
  int failures = 0;
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0x96ad);
    const DType dtype =
        rng.pick({DType::kFloat32, DType::kBFloat16, DType::kBFloat16, DType::kFloat16, DType::kFloat64});
    // Half of the heads are such as engines with conditions take.
    const bool plain = rng.chance(2);
    const std::int64_t size = plain ? 2 * rng.between(1, 48) : rng.between(1, 90);
    HeadCase head = random_head_case(rng, rng.between(0, 70), rng.between(1, 700), size, dtype);
    if (rng.chance(4)) head.contract = "fma";
    vary_head(head, rng);
    if (plain) head.weight_lay = Lay::kWholeRows;
    Wanted wanted{!rng.chance(4), !rng.chance(4), !rng.chance(4)};
    wanted.accumulate = rng.chance(3);
    EXPECT_TRUE(same_gradients(on_cpu(head, wanted), on_gpu(head, wanted), Finite::kPerhapsNone))
        << head_text(head);
    if (HasFailure() && ++failures == 8) return;  // the rest would tell nothing new
  }
}

// More rows than a range, targets with several segments of occurrences.
TEST(CudaHeadGradient, row_counts_equal_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64})
    for (const std::int64_t rows : {1, 7, 64, 255, 257, 1100, 9000}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows));
      Rng rng(static_cast<std::uint64_t>(rows));
      HeadCase head =
          random_head_case(rng, rows, rows > 2000 ? 130 : 1000, dtype == DType::kBFloat16 ? 16 : 12, dtype);
      head.bias = normal_elements(rng, dtype, head.logp.columns);
      if (rows == 9000) head.logp.grad_entropy = normal_elements(rng, head.logp.real(), rows);
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        if (row % 5 == 4) head.logp.targets[row] = -100;
        if (row % 5 < 2) head.logp.targets[row] = 3;
      }
      for (const bool accumulate : {false, true})
        EXPECT_TRUE(same_gradients(on_cpu(head, {true, true, true, accumulate}),
                                   on_gpu(head, {true, true, true, accumulate})));
    }
}

// Few rows, of one tile and of several: hidden sizes of a part of a tile, of more than one, and in whole runs of 16 bytes or
// not; tiles with and without rows that are targets; segments of the vocabulary and parts of them.
TEST(CudaHeadGradient, few_rows_equal_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const std::int64_t rows : {1, 2, 16, 63, 64, 65, 127, 128, 129, 192, 256, 257, 511, 512, 513})
      for (const auto& [vocab, size] :
           {std::array<std::int64_t, 2>{130, 8}, {600, 200}, {600, 202}, {300, 392}}) {
        if (dtype == DType::kFloat16 && size == 392) continue;
        SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows) + ", V " +
                     std::to_string(vocab) + ", H " + std::to_string(size));
        Rng rng(static_cast<std::uint64_t>(rows + vocab + size));
        HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
        head.weight_lay = Lay::kWholeRows;
        // Targets in a few runs and far between; every fifth row takes no part.
        for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
          if (row % 7 == 3) head.logp.targets[row] = vocab - 1 - static_cast<std::int64_t>(row % 3);
          if (row % 5 == 4) head.logp.targets[row] = -100;
        }
        for (const bool accumulate : {false, true}) {
          const Wanted wanted{true, true, false, accumulate};
          EXPECT_TRUE(same_gradients(on_cpu(head, wanted), on_gpu(head, wanted)));
        }
      }
}

TEST(CudaHeadGradient, few_rows_that_take_part_equal_the_cpu) {
  for (const std::int64_t rows : {64, 500})
    for (const std::int64_t taking : {0, 1, 3, 64, 129}) {
      SCOPED_TRACE("rows " + std::to_string(rows) + ", of which take part " + std::to_string(taking));
      Rng rng(static_cast<std::uint64_t>(rows + taking));
      HeadCase head = random_head_case(rng, rows, 1300, 200, DType::kBFloat16);
      head.weight_lay = Lay::kWholeRows;
      for (std::int64_t row = taking; row < rows; ++row)
        head.logp.targets[static_cast<std::size_t>(row * 7 % rows)] = -100;
      EXPECT_TRUE(same_gradients(on_cpu(head), on_gpu(head)));
    }
}

// Sums of grad_hidden pass 2^63 where they are scaled by a smaller element than the largest.
TEST(CudaHeadGradient, the_largest_weight_is_found_wherever_it_lies) {
  constexpr std::int64_t kVocab = 333, kSize = 392;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const std::int64_t rows : {1, 64, 100, 300})
      for (const std::int64_t v : {0, 63, 332})
        for (const std::int64_t k : {0, 191, 192, 391}) {
          SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows) + ", at (" +
                       std::to_string(v) + ", " + std::to_string(k) + ")");
          Rng rng(static_cast<std::uint64_t>(rows + v + k));
          HeadCase head = random_head_case(rng, rows, kVocab, kSize, dtype);
          head.weight_lay = Lay::kWholeRows;
          for (std::int64_t i = 0; i < kVocab * kSize; ++i)  // so that no row is sure of itself
            set_element(head.weight, i, element_value(head.weight, i) / 64);
          for (std::int64_t row = 0; row < rows; ++row) set_element(head.hidden, row * kSize + k, 0);
          set_element(head.weight, v * kSize + k, v % 2 == 0 ? 60000 : -60000);
          const Wanted wanted{true, false, false};
          EXPECT_TRUE(same_gradients(on_cpu(head, wanted), on_gpu(head, wanted)));
        }
}

// Every token is one target; as many as fill nine segments, and one row less and more than one. Hidden sizes of one run of
// 64 columns and of more than a tile, in whole runs of 16 bytes and not.
TEST(CudaHeadGradient, one_target_for_all_rows_equals_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32})
    for (const auto& [rows, size] : {std::array<std::int64_t, 2>{128, 8},
                                     {129, 200},
                                     {200, 8},
                                     {512, 200},
                                     {1023, 8},
                                     {1024, 8},
                                     {1025, 200},
                                     {1025, 202},
                                     {2048, 8},
                                     {8192, 8},
                                     {8193, 200},
                                     {8193, 202},
                                     {9216, 8}}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows) + ", H " +
                   std::to_string(size));
      Rng rng(static_cast<std::uint64_t>(rows));
      HeadCase head = random_head_case(rng, rows, 20, size, dtype);
      head.bias = normal_elements(rng, dtype, 20);
      head.weight_lay = Lay::kWholeRows;
      for (std::int64_t& target : head.logp.targets) target = 11;
      for (const bool accumulate : {false, true}) {
        const Wanted wanted{true, true, true, accumulate};
        EXPECT_TRUE(same_gradients(on_cpu(head, wanted), on_gpu(head, wanted)));
      }
    }
}

// Several ranges of rows: with X in the gradient of hidden and apart from it, the gradients of 16 bits in lines and in pairs.
TEST(CudaHeadGradient, ranges_of_rows_equal_the_cpu_wherever_x_lies) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const std::int64_t size : {16, 18})
      for (const bool hidden : {true, false})
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(std::string(dtype_name(dtype)) + ", H " + std::to_string(size) +
                       (hidden ? "" : ", no gradient of hidden") + (accumulate ? ", added" : ""));
          Rng rng(static_cast<std::uint64_t>(size));
          HeadCase head = random_head_case(rng, 9000, 130, size, dtype);
          head.weight_lay = Lay::kWholeRows;
          for (std::size_t row = 0; row < 9000; row += 40) head.logp.targets[row] = -100;
          const Wanted wanted{hidden, true, true, accumulate};
          EXPECT_TRUE(same_gradients(on_cpu(head, wanted), on_gpu(head, wanted)));
        }
}

// Tiles in which every column is the target of several rows, or few columns are of very many, in one range of rows.
TEST(CudaHeadGradient, tiles_full_of_targets_equal_the_cpu) {
  for (const std::int64_t rows : {4097, 8192})
    for (const auto& [vocab, targets] :
         {std::array<std::int64_t, 2>{2, 2}, {300, 300}, {600, 600}, {700, 7}}) {
      SCOPED_TRACE("rows " + std::to_string(rows) + ", V " + std::to_string(vocab));
      Rng rng(static_cast<std::uint64_t>(rows + vocab));
      HeadCase head = random_head_case(rng, rows, vocab, 16, DType::kBFloat16);
      for (std::int64_t row = 0; row < rows; ++row)  // the last columns, by turns
        head.logp.targets[static_cast<std::size_t>(row)] = vocab - 1 - row % targets;
      for (const bool accumulate : {false, true}) {
        const Wanted wanted{true, true, false, accumulate};
        EXPECT_TRUE(same_gradients(on_cpu(head, wanted), on_gpu(head, wanted)));
      }
    }
}

// Slices with one segment and with two, vocabularies that no block divides, hidden sizes beyond a segment and such as end
// within a tile, a run of 64 columns of it, and 16 bytes.
TEST(CudaHeadGradient, long_vocabularies_and_hidden_sizes_equal_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    for (const auto& [rows, vocab, size] : {std::array<std::int64_t, 3>{2, 131072, 16},
                                            {3, 70001, 24},
                                            {40, 9000, 33},
                                            {130, 1025, 64},
                                            {60, 300, 200},
                                            {60, 300, 390},
                                            {60, 300, 584},
                                            {5, 200, 8208}}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", V " + std::to_string(vocab));
      Rng rng(static_cast<std::uint64_t>(vocab));
      HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
      head.bias = normal_elements(rng, dtype, vocab);
      EXPECT_TRUE(same_gradients(on_cpu(head), on_gpu(head)));
    }
}

// More tiles than run at a time, of more rows than such as leave clusters free to run at their own pace; most clusters have
// nothing to do where most rows take no part.
TEST(CudaHeadGradient, tiles_that_keep_pace_equal_the_cpu) {
  for (const std::int64_t taking : {5000, 300}) {
    SCOPED_TRACE("rows that take part " + std::to_string(taking));
    Rng rng(5000);
    HeadCase head = random_head_case(rng, 5000, 4000, 200, DType::kBFloat16);
    head.weight_lay = Lay::kWholeRows;
    for (std::int64_t row = taking; row < 5000; ++row)
      head.logp.targets[static_cast<std::size_t>(row * 7 % 5000)] = -100;
    EXPECT_TRUE(same_gradients(on_cpu(head), on_gpu(head)));
  }
}

TEST(CudaHeadGradient, each_gradient_alone_has_the_same_bits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    Rng rng(11);
    HeadCase head = random_head_case(rng, 1300, 150, 8, dtype);
    head.bias = normal_elements(rng, dtype, 150);
    head.logp.grad_entropy = normal_elements(rng, head.logp.real(), 1300);
    const HeadGradients all = on_cpu(head);
    for (int which = 0; which < 8; ++which) {
      const Wanted wanted{(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
      HeadGradients expected = all;
      if (!wanted.hidden) expected.hidden = {};
      if (!wanted.weight) expected.weight = {};
      if (!wanted.bias) expected.bias = {};
      EXPECT_TRUE(same_gradients(expected, on_gpu(head, wanted))) << dtype_name(dtype) << " " << which;
    }
  }
}

TEST(CudaHeadGradient, edge_rows_equal_the_cpu) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    for (const std::int64_t size : {6, 8})
      for (const char* edge : kHeadEdges) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + ", " + edge + ", H " + std::to_string(size));
        const HeadCase head = edge_head_case(edge, dtype, size);
        EXPECT_TRUE(same_gradients(on_cpu(head), on_gpu(head), Finite::kPerhapsNone));
      }
}

// field-failures A4: gradients exist and are exactly zero.
TEST(CudaHeadGradient, a4_a_batch_without_targets_has_zero_gradients) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const std::int64_t rows : {0, 4}) {
      Rng rng(4);
      HeadCase head = random_head_case(rng, rows, 16, 8, dtype);
      head.bias = normal_elements(rng, dtype, 16);
      for (std::int64_t& target : head.logp.targets) target = -100;
      const HeadGradients zero{Values(dtype, rows * 8), Values(dtype, 16 * 8), Values(dtype, 16)};
      EXPECT_TRUE(same_gradients(zero, on_gpu(head)));
    }
}

}  // namespace
}  // namespace samebits::test
