// Launch of the products by mma.sync: which way each operand lies, and how wide it may be read.
#include "cuda/kernel/product_mma.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

// An operand by its axis along the result and its axis along k.
struct Lie {
  bool dense;    // lines run along k
  bool vectors;  // 16 bytes of a line at a time
};

Lie lie_of(const void* data, std::int64_t along_stride, std::int64_t deep_stride) {
  const bool dense = deep_stride == 1 || along_stride != 1;
  const std::int64_t inner = dense ? deep_stride : along_stride, outer = dense ? along_stride : deep_stride;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && outer % 8 == 0;
  return {dense, inner == 1 && aligned};
}

using Kernel = void (*)(Product, bool, bool, bool);

template <class T, bool kLong>
Kernel kernel_of(bool dense_a, bool dense_b) {
  if (dense_a)
    return dense_b ? product_mma_tile<T, true, true, kLong> : product_mma_tile<T, true, false, kLong>;
  return dense_b ? product_mma_tile<T, false, true, kLong> : product_mma_tile<T, false, false, kLong>;
}
template <class T>
Kernel kernel_of(bool dense_a, bool dense_b, bool long_sums) {
  return long_sums ? kernel_of<T, true>(dense_a, dense_b) : kernel_of<T, false>(dense_a, dense_b);
}

}  // namespace

void product_mma(const Product& asked, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  // The stride of an axis of one element may be anything, and the kernel makes addresses with it that it does not read: with
  // 0 they are aligned like the first.
  Product product = asked;
  if (product.rows == 1) product.a.row_stride = 0;
  if (product.columns == 1) product.b.column_stride = 0;
  const Lie a = lie_of(product.a.data, product.a.row_stride, product.a.column_stride);
  const Lie b = lie_of(product.b.data, product.b.column_stride, product.b.row_stride);
  const std::int64_t pair_bytes = 2 * dtype_size(product.out_dtype);
  const bool pairs =
      reinterpret_cast<std::uintptr_t>(product.out) % static_cast<std::uintptr_t>(pair_bytes) == 0 &&
      product.out_row_stride % 2 == 0;
  const bool long_sums = product.depth > order::kSegment;
  const Kernel kernel = product.a_dtype == DType::kBFloat16
                            ? kernel_of<order::BFloat16>(a.dense, b.dense, long_sums)
                            : kernel_of<order::Float16>(a.dense, b.dense, long_sums);
  const std::int64_t row_tiles = (product.rows + kMmaTile - 1) / kMmaTile;
  const std::int64_t column_tiles = (product.columns + kMmaTile - 1) / kMmaTile;
  launch("product_mma_tile", kernel, {row_tiles * column_tiles, kMmaThreads, kMmaSharedBytes}, call, product,
         a.vectors, b.vectors, pairs);
}

}  // namespace samebits::cuda
