// The self-test of the deterministic product and of linear_logp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <samebits/matmul.h>

#include "cli/selftest_case.h"

namespace samebits::cli {

/// out [rows, columns] = a [rows, depth] @ b [columns, depth].T.
struct ProductCase {
  DType dtype = DType::kFloat32, out_dtype = DType::kFloat32;
  bool tc16 = false;  ///< tc16 instead of fma; dtype is then a 16-bit one
  std::int64_t rows = 1, columns = 1, depth = 1;
  std::vector<std::byte> a, b;

  /// "bfloat16 [3, 300] and [5, 300], out float32, tc16"
  std::string text() const;
};

/// A random case of any dtype; some are deeper than a segment of 8192.
ProductCase random_product_case(Random& random);

/// The product as raw bytes, by the library or by the scalar twin.
std::vector<std::byte> product_by_library(const ProductCase& test, const ExecContext& context);
std::vector<std::byte> product_by_twin(const ProductCase& test);

/// logp of row r against column r mod columns, fused by the library, and unfused by the twins: raw bytes, float32 or
/// float64. For cases of some depth.
std::vector<std::byte> linear_logp_by_library(const ProductCase& test, const ExecContext& context);
std::vector<std::byte> linear_logp_by_twin(const ProductCase& test);

/// A recorded product: operands by an integer formula, 3 x 5, and a digest of the output's bytes.
struct ProductGolden {
  DType dtype;
  bool tc16;
  std::int64_t depth;
  std::uint64_t digest;
};
std::span<const ProductGolden> product_goldens();
ProductCase product_golden_case(const ProductGolden& golden);
/// What a run gave, in the place of the recorded digest.
ProductGolden product_golden_of(const ProductGolden& golden, const std::vector<std::byte>& output);
/// One line of the table.
std::string product_golden_text(const ProductGolden& golden);

}  // namespace samebits::cli
