// Products for the tests: matrices laid out in any way, the public call, and the scalar twin's answer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <samebits/samebits.h>

#include "bits.h"
#include "rng.h"

namespace samebits::test {

// How a matrix lies in memory. Nothing here may change a bit.
enum class Lay {
  kDense,       // row-major
  kTransposed,  // column-major
  kPadded,      // row-major with a gap behind each row
  kReversed,    // row-major, both axes backwards
  kSparse,      // every third element of a row-major buffer
  kUnaligned,   // row-major, one element behind a 64-byte boundary
  kEqualRows,   // one row, stride 0: the rows are taken to be equal
  kWholeRows,   // row-major, rows a multiple of 8 elements apart, as the copy engine of SM90 takes them
};
inline constexpr Lay kLays[] = {Lay::kDense,  Lay::kTransposed, Lay::kPadded,   Lay::kReversed,
                                Lay::kSparse, Lay::kUnaligned,  Lay::kEqualRows};

// A matrix, its memory, and a view of it.
class Matrix {
 public:
  // `dense` is [rows, columns] in row-major order.
  Matrix(const Values& dense, std::int64_t rows, std::int64_t columns, Lay lay = Lay::kDense);

  ConstTensorView view() const;
  // The view with its axes exchanged.
  ConstTensorView transposed() const;
  // Every byte there is, what the view does not show included.
  std::span<std::byte> storage() { return storage_; }
  // What the view shows; differs from what was passed for kEqualRows.
  Values dense() const;

 private:
  DType dtype_;
  std::int64_t rows_, columns_, row_stride_, column_stride_, first_;
  std::vector<std::byte> storage_;
};

// Elements by a family picked at random: normal, integers, wide exponents, with or without NaN, infinities,
// zeros of both signs, subnormals.
Values random_elements(Rng& rng, DType dtype, std::int64_t count);
// Normal elements only.
Values normal_elements(Rng& rng, DType dtype, std::int64_t count);

// The public call, under fma unless said otherwise. Fails the running test when it writes outside of `out`.
Values product(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
               const std::string& backend, int threads, const ConstTensorView& bias = {},
               const std::string& contract = "fma");
// The scalar twin, under "fma" or "tc16".
Values twin_product(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                    const ConstTensorView& bias = {}, const std::string& contract = "fma");

// field-failures A14: the first row of a product is the same in batches of many sizes. Fails the running test.
void row_zero_does_not_see_the_batch(DType dtype, const std::string& backend, const std::string& contract);

}  // namespace samebits::test
