#include "matmul_case.h"

#include <cstring>

#include "core/product_checks.h"
#include "logp_case.h"
#include "ref/matmul.h"
#include "strided.h"

namespace samebits::test {

Matrix::Matrix(const Values& dense, std::int64_t rows, std::int64_t columns, Lay lay)
    : dtype_(dense.dtype),
      rows_(rows),
      columns_(columns),
      row_stride_(columns),
      column_stride_(1),
      first_(0) {
  const std::int64_t size = dtype_size(dtype_);
  switch (lay) {
    case Lay::kDense: break;
    case Lay::kTransposed:
      row_stride_ = 1;
      column_stride_ = rows;
      break;
    case Lay::kPadded: row_stride_ = columns + 5; break;
    case Lay::kReversed:
      row_stride_ = -columns;
      column_stride_ = -1;
      first_ = rows * columns > 0 ? rows * columns - 1 : 0;
      break;
    case Lay::kSparse:
      row_stride_ = 3 * columns;
      column_stride_ = 3;
      break;
    case Lay::kUnaligned: first_ = 1; break;
    case Lay::kEqualRows: row_stride_ = 0; break;
    case Lay::kWholeRows: row_stride_ = (columns + 7) / 8 * 8; break;
  }
  storage_.assign(static_cast<std::size_t>((rows + 1) * (3 * columns + 6) * size) + 64, kFill);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  first_ = first_ * size + static_cast<std::int64_t>((64 - address % 64) % 64);
  for (std::int64_t i = rows; i-- > 0;)  // of equal rows the first one stays
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(storage_.data() + first_ + (i * row_stride_ + j * column_stride_) * size,
                  dense.bytes.data() + (i * columns + j) * size, static_cast<std::size_t>(size));
}

ConstTensorView Matrix::view() const {
  return {storage_.data() + first_, dtype_, {rows_, columns_}, {row_stride_, column_stride_}};
}

ConstTensorView Matrix::transposed() const {
  return {storage_.data() + first_, dtype_, {columns_, rows_}, {column_stride_, row_stride_}};
}

Values Matrix::dense() const {
  const std::int64_t size = dtype_size(dtype_);
  Values values(dtype_, rows_ * columns_);
  for (std::int64_t i = 0; i < rows_; ++i)
    for (std::int64_t j = 0; j < columns_; ++j)
      std::memcpy(values.bytes.data() + (i * columns_ + j) * size,
                  storage_.data() + first_ + (i * row_stride_ + j * column_stride_) * size,
                  static_cast<std::size_t>(size));
  return values;
}

Values random_elements(Rng& rng, DType dtype, std::int64_t count) {
  Values values(dtype, count);
  const int family = static_cast<int>(rng.below(5));
  for (std::int64_t i = 0; i < count; ++i) {
    switch (family) {
      case 0: set_element(values, i, rng.normal()); break;
      case 1: set_element(values, i, static_cast<double>(rng.between(-3, 3))); break;
      case 2: set_element(values, i, std::ldexp(rng.normal(), static_cast<int>(rng.between(-70, 60)))); break;
      case 3:
        set_element(values, i, std::ldexp(rng.normal(), static_cast<int>(rng.between(-140, -60))));
        break;
      default:
        set_element(values, i, rng.normal());
        if (rng.chance(40)) set_element(values, i, rng.pick<double>({INFINITY, -INFINITY, NAN, -0.0, 0.0}));
    }
  }
  return values;
}

Values normal_elements(Rng& rng, DType dtype, std::int64_t count) {
  Values values(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) set_element(values, i, rng.normal());
  return values;
}

Values product(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
               const std::string& backend, int threads, const ConstTensorView& bias,
               const std::string& contract) {
  Placement placement;
  placement.gap = 3;
  placement.offset = 1;
  Strided out(out_dtype, {a.shape[0]}, b.shape[1], placement);
  ExecContext context;
  context.backend = backend;
  context.threads = threads;
  MatmulOptions options;
  options.contract = contract;
  options.bias = bias;
  matmul(a, b, out.view(), options, context);
  EXPECT_TRUE(out.gaps_are_untouched()) << "wrote between the rows of out";
  return out.gather();
}

Values twin_product(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                    const ConstTensorView& bias, const std::string& contract) {
  Values out(out_dtype, a.shape[0] * b.shape[1]);
  const TensorView written(out.bytes.data(), out_dtype, {a.shape[0], b.shape[1]});
  ref::matmul(core::product_problem(a, b, bias, contract == "tc16", written));
  return out;
}

void row_zero_does_not_see_the_batch(DType dtype, const std::string& backend, const std::string& contract) {
  for (const std::int64_t depth : {1000, 1280}) {
    Rng rng(static_cast<std::uint64_t>(depth));
    const Matrix a(normal_elements(rng, dtype, 257 * depth), 257, depth);
    const Matrix b(normal_elements(rng, dtype, 512 * depth), 512, depth);
    ConstTensorView alone = a.view();
    alone.shape[0] = 1;
    const Values expected = twin_product(alone, b.transposed(), DType::kFloat32, {}, contract);
    for (const std::int64_t rows : {1, 2, 3, 7, 16, 17, 32, 33, 64, 65, 255, 256, 257}) {
      ConstTensorView batch = a.view();
      batch.shape[0] = rows;
      Values row = product(batch, b.transposed(), DType::kFloat32, backend, 2, {}, contract);
      row.bytes.resize(expected.bytes.size());
      ASSERT_TRUE(same_bits(expected, row)) << "K = " << depth << ", " << rows << " rows";
    }
  }
}

}  // namespace samebits::test
