#include "product_call.h"

#include "device.h"
#include "strided.h"

namespace samebits::test {
namespace {

// The bytes from the first to the last element of a view.
std::span<std::byte> memory_of(const ConstTensorView& view) {
  if (view.numel() == 0) return {};
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < view.rank; ++i) {
    const std::int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t size = dtype_size(view.dtype);
  auto* data = static_cast<std::byte*>(const_cast<void*>(view.data));
  return {data + low * size, static_cast<std::size_t>((high - low + 1) * size)};
}

ConstTensorView moved(DeviceResidence& residence, const ConstTensorView& view) {
  if (!view) return {};
  TensorView writable(const_cast<void*>(view.data), view.dtype, std::span(view.shape.data(), view.rank),
                      std::span(view.strides.data(), view.rank));
  return residence.enter(memory_of(view), writable);
}

}  // namespace

Values product_on_gpu(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                      const ProductCall& call, const ConstTensorView& bias) {
  DeviceResidence residence;
  Placement placement;
  // Rows that begin at multiples of 16 bytes, and others: both ways of storing are used.
  const bool aligned = (a.shape[0] + b.shape[1]) % 2 == 0;
  placement.gap = aligned ? 16 + (8 - b.shape[1] % 8) % 8 : 3;
  placement.offset = aligned ? 0 : 1;
  Strided out(out_dtype, {a.shape[0]}, b.shape[1], placement);
  const ConstTensorView left = moved(residence, a), right = moved(residence, b);
  MatmulOptions options;
  options.contract = call.contract;
  options.bias = moved(residence, bias);
  const TensorView result = residence.enter(out.storage(), out.view());
  ExecContext context;
  context.backend = call.backend;
  if (call.workspace)
    context.workspace = residence.workspace(matmul_workspace_bytes(left, right, result, options, context));
  matmul(left, right, result, options, context);
  residence.bring_back();
  EXPECT_TRUE(out.gaps_are_untouched()) << "wrote between the rows of out";
  return out.gather();
}

Values product_on_cpu(const ConstTensorView& a, const ConstTensorView& b, DType out_dtype,
                      const std::string& contract, const ConstTensorView& bias) {
  return product(a, b, out_dtype, "auto", 0, bias, contract);
}

}  // namespace samebits::test
