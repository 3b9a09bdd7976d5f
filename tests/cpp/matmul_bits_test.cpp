// fma.v1 and fma64.v1: twin = every backend = every thread count = every layout, shape and split.
#include <gtest/gtest.h>

#include "matmul_case.h"
#include "run_case.h"

namespace samebits::test {
namespace {

constexpr DType kOperands[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

class MatmulBits : public ::testing::TestWithParam<std::string> {};

TEST_P(MatmulBits, random_products_equal_the_twin) {
  constexpr int kCases = 10000;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const DType dtype = rng.pick({kOperands[0], kOperands[1], kOperands[2], kOperands[3]});
    const bool half = dtype == DType::kBFloat16 || dtype == DType::kFloat16;
    const DType out_dtype = half && rng.chance(2) ? DType::kFloat32 : dtype;
    const std::int64_t rows = rng.between(0, 30), columns = rng.between(0, 70), depth = rng.between(0, 300);
    const Matrix a(random_elements(rng, dtype, rows * depth), rows, depth, kLays[rng.below(7)]);
    const bool from_rows = rng.chance(2);  // B seen as the transpose of rows, as a weight is
    const Matrix b(random_elements(rng, dtype, depth * columns), from_rows ? columns : depth,
                   from_rows ? depth : columns, kLays[rng.below(7)]);
    const ConstTensorView b_view = from_rows ? b.transposed() : b.view();
    const int threads = rng.pick({1, 2, 7});
    const Matrix bias_row(random_elements(rng, dtype, columns), 1, columns, kLays[rng.below(7)]);
    ConstTensorView bias;
    if (rng.chance(2))
      bias = ConstTensorView(bias_row.view().data, dtype, {columns}, {bias_row.view().strides[1]});
    const Values expected = twin_product(a.view(), b_view, out_dtype, bias);
    const Values actual = product(a.view(), b_view, out_dtype, GetParam(), threads, bias);
    ASSERT_TRUE(same_bits(expected, actual, Finite::kPerhapsNone))
        << rows << " x " << depth << " x " << columns;
    if (HasFailure()) return;
  }
}

// Ends of steps, lines, chunks and segments.
TEST_P(MatmulBits, every_depth_and_thread_count_equals_the_twin) {
  for (const std::int64_t depth :
       {0, 1, 3, 4, 15, 16, 17, 127, 128, 129, 255, 256, 257, 8191, 8192, 8193, 20000}) {
    for (const DType dtype : kOperands) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " K = " + std::to_string(depth));
      Rng rng(static_cast<std::uint64_t>(depth) * 8 + static_cast<std::uint64_t>(dtype));
      const Matrix a(normal_elements(rng, dtype, 5 * depth), 5, depth);
      const Matrix b(normal_elements(rng, dtype, 37 * depth), 37, depth);
      const DType out_dtype = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
      const Values expected = twin_product(a.view(), b.transposed(), out_dtype);
      for (const int threads : {1, 2, 7})
        ASSERT_TRUE(same_bits(expected, product(a.view(), b.transposed(), out_dtype, GetParam(), threads)));
    }
  }
}

// Rows and columns that fill, miss and pass register tiles, panels and cache tiles.
TEST_P(MatmulBits, every_tile_edge_equals_the_twin) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Rng rng(7);
    constexpr std::int64_t kMostRows = 389, kMostColumns = 420, kDepth = 19;
    const Matrix a(normal_elements(rng, dtype, kMostRows * kDepth), kMostRows, kDepth);
    const Matrix b(normal_elements(rng, dtype, kMostColumns * kDepth), kMostColumns, kDepth);
    const Values all = twin_product(a.view(), b.transposed(), dtype);
    for (const std::int64_t rows : {1, 2, 5, 6, 7, 11, 12, 13, 24, 25, 48, 49, 383, 384, 385, 389}) {
      for (const std::int64_t columns :
           {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 383, 384, 385, 420}) {
        ConstTensorView left = a.view(), right = b.transposed();
        left.shape[0] = rows;
        right.shape[1] = columns;
        Values expected(dtype, rows * columns);
        for (std::int64_t i = 0; i < rows; ++i)
          std::copy_n(all.bytes.data() + i * kMostColumns * dtype_size(dtype), columns * dtype_size(dtype),
                      expected.bytes.data() + i * columns * dtype_size(dtype));
        ASSERT_TRUE(same_bits(expected, product(left, right, dtype, GetParam(), 2)))
            << rows << " x " << columns;
      }
    }
  }
}

// A few rows against a deep operand take another loop order than many rows do.
TEST_P(MatmulBits, few_rows_and_many_rows_give_the_same_row) {
  Rng rng(11);
  constexpr std::int64_t kRows = 400, kDepth = 8300, kColumns = 40;
  const Matrix a(normal_elements(rng, DType::kFloat32, kRows * kDepth), kRows, kDepth);
  const Matrix b(normal_elements(rng, DType::kFloat32, kColumns * kDepth), kColumns, kDepth);
  const Values many = product(a.view(), b.transposed(), DType::kFloat32, GetParam(), 1);
  for (const std::int64_t rows : {1, 2, 12, 13, 100}) {
    ConstTensorView few = a.view();
    few.shape[0] = rows;
    Values expected(DType::kFloat32, rows * kColumns);
    std::copy_n(many.bytes.data(), expected.bytes.size(), expected.bytes.data());
    ASSERT_TRUE(same_bits(expected, product(few, b.transposed(), DType::kFloat32, GetParam(), 2)));
  }
}

// field-failures A14: the GEMM must not choose its order by the batch.
TEST_P(MatmulBits, a14_row_zero_does_not_see_the_batch) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    row_zero_does_not_see_the_batch(dtype, GetParam(), "fma");
}

// field-failures A16: nor by the number of threads.
TEST_P(MatmulBits, a16_threads_do_not_change_a_bit) {
  Rng rng(16);
  const Matrix a(normal_elements(rng, DType::kFloat32, 56), 1, 56);
  const Matrix b(normal_elements(rng, DType::kFloat32, 56 * 444), 56, 444);
  const Values expected = twin_product(a.view(), b.view(), DType::kFloat32);
  for (const int threads : {1, 2, 6, 16})
    ASSERT_TRUE(same_bits(expected, product(a.view(), b.view(), DType::kFloat32, GetParam(), threads)));
}

TEST_P(MatmulBits, every_layout_gives_the_dense_bits) {
  for (const DType dtype : kOperands) {
    Rng rng(static_cast<std::uint64_t>(dtype));
    constexpr std::int64_t kRows = 29, kDepth = 517, kColumns = 95;
    const DType out_dtype = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    const Values left = normal_elements(rng, dtype, kRows * kDepth);
    const Values right = normal_elements(rng, dtype, kDepth * kColumns);
    for (const Lay a_lay : kLays) {
      for (const Lay b_lay : kLays) {
        const Matrix a(left, kRows, kDepth, a_lay), b(right, kDepth, kColumns, b_lay);
        const Matrix a_dense(a.dense(), kRows, kDepth), b_dense(b.dense(), kDepth, kColumns);
        const Values expected = product(a_dense.view(), b_dense.view(), out_dtype, GetParam(), 1);
        ASSERT_TRUE(same_bits(expected, product(a.view(), b.view(), out_dtype, GetParam(), 2)))
            << "layouts " << static_cast<int>(a_lay) << " and " << static_cast<int>(b_lay);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(backends, MatmulBits, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
