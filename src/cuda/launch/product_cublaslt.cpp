// tc16 by cuBLASLt. Its algorithms that leave K in one piece compute the chain of the tensor core (measured on an H200), but
// where the columns of the result or K are no multiples of 8 it takes kernels that add in another order, so this engine
// refuses these. Segments are chained by beta = 1, which adds each product to what is there in one rounding.
#include "cuda/launch/product_cublaslt.h"

#include <utility>

#include "cuda/cublaslt.h"
#include "cuda/launch/product_finish.h"
#include "cuda/runtime.h"
#include "order/dot.h"

namespace samebits::cuda {
namespace {

// An operand as cuBLASLt takes it, column-major: the axis of the result and the axis k, one of them dense.
struct Lie {
  bool dense_k = false;
  std::int64_t lead = 0;  // elements between neighbours of the other axis
  std::string problem;    // empty when it can be taken
};

Lie lie_of(const void* data, std::int64_t along, std::int64_t along_stride, std::int64_t deep,
           std::int64_t deep_stride) {
  Lie lie;
  lie.dense_k = deep_stride == 1;
  if (!lie.dense_k && along_stride != 1) {
    lie.problem = "has no dense axis";
    return lie;
  }
  const std::int64_t inner = lie.dense_k ? deep : along;
  lie.lead = !lie.dense_k ? deep_stride : along > 1 ? along_stride : deep;  // one row has no stride
  if (lie.lead % 8 != 0 || lie.lead < inner)
    lie.problem = "has a stride of " + std::to_string(lie.lead) + " elements; it takes multiples of 8 from " +
                  std::to_string(inner) + " on";
  else if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
    lie.problem = "does not begin at a multiple of 16 bytes";
  return lie;
}

Lie lie_of_a(const Product& p) {
  return lie_of(p.a.data, p.rows, p.a.row_stride, p.depth, p.a.column_stride);
}
Lie lie_of_b(const Product& p) {
  return lie_of(p.b.data, p.columns, p.b.column_stride, p.depth, p.b.row_stride);
}

// Whether the library writes `out` itself; else it fills float32 scratch, which is then rounded.
bool writes_out(const Product& p) {
  return p.bias == nullptr && (p.depth <= order::kSegment || p.out_dtype == DType::kFloat32) &&
         p.out_row_stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(p.out) % 16 == 0;
}

}  // namespace

std::string no_cublaslt(const Product& p, Device) {
  if (!p.tc16) return "it computes contract='tc16' alone";
  if (!cublaslt().problem.empty()) return cublaslt().problem;
  if (p.rows == 0) return "there are no rows";
  for (const auto& [name, extent] : {std::pair{"columns", p.columns}, std::pair{"k", p.depth}})
    if (extent == 0 || extent % 8 != 0)
      return "there are " + std::to_string(extent) + " " + name + "; it takes multiples of 8";
  if (p.row_bound != nullptr || p.depth_bound != nullptr) return "it cannot read extents from the device";
  if (const Lie a = lie_of_a(p); !a.problem.empty()) return "a " + a.problem;
  if (const Lie b = lie_of_b(p); !b.problem.empty()) return "b " + b.problem;
  return "";
}

std::size_t cublaslt_scratch_bytes(const Product& p, Device) {
  return writes_out(p) ? 0 : static_cast<std::size_t>(p.rows * p.columns) * 4;
}

void product_cublaslt(const Product& p, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const bool direct = writes_out(p);
  const Lie a = lie_of_a(p), b = lie_of_b(p);
  const auto key = [&](std::int64_t depth) {
    return CublasLtKey{call.device.index,
                       p.a_dtype,
                       direct ? p.out_dtype : DType::kFloat32,
                       p.rows,
                       p.columns,
                       depth,
                       a.lead,
                       b.lead,
                       direct ? p.out_row_stride : p.columns,
                       a.dense_k,
                       b.dense_k};
  };
  const std::int64_t tail = p.depth % order::kSegment;
  const CublasLtProduct* whole =
      p.depth >= order::kSegment ? &cublaslt_product(key(order::kSegment)) : nullptr;
  const CublasLtProduct* rest = tail > 0 ? &cublaslt_product(key(tail)) : nullptr;

  const std::size_t bytes = cublaslt_scratch_bytes(p, call.device);
  Scratch scratch(call, Scratch::rounded(bytes));
  void* out = direct ? p.out : scratch.take(bytes);
  for (std::int64_t k = 0; k < p.depth; k += order::kSegment) {
    const CublasLtProduct& segment = p.depth - k >= order::kSegment ? *whole : *rest;
    const auto from = [&](const core::Operand& operand, std::int64_t stride) {
      return static_cast<const std::uint16_t*>(operand.data) + k * stride;
    };
    const float one = 1.0f, kept = k > 0 ? 1.0f : 0.0f;
    check(cublaslt().matmul(segment.handle, segment.desc, &one, from(p.b, p.b.row_stride), segment.b,
                            from(p.a, p.a.column_stride), segment.a, &kept, out, segment.out, out,
                            segment.out, &segment.algo, nullptr, 0, stream_of(call)),
          "cublasLtMatmul");
  }
  if (!direct) product_finish(p, static_cast<const float*>(out), p.columns, call);
}

}  // namespace samebits::cuda
