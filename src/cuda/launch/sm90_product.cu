// Products by the tensor cores of SM90a: any layout in which each operand has a dense axis.
#include "cuda/launch/sm90_product.h"

#include "cuda/kernel/sm90_store.cuh"
#include "cuda/launch/product_sm90.h"
#include "order/dot.h"

namespace samebits::cuda {
namespace {

// An operand of the kernel: `outer` is its axis M or N.
struct Side {
  DenseMatrix matrix;
  bool transposed;  // `outer`, not K, is dense
};

Side side_of(const core::Operand& operand, DType dtype, std::int64_t outer, std::int64_t depth,
             std::int64_t outer_stride, std::int64_t depth_stride) {
  // Where both are dense, as in a single row or column, any description will do that the copy engine can read.
  const bool transposed = depth_stride != 1 && outer_stride == 1;
  if (transposed) return {{operand.data, dtype, outer, depth, depth_stride}, true};
  return {{operand.data, dtype, depth, outer, outer_stride}, false};
}

struct Sides {
  Side a, b;
  explicit Sides(const Product& p)
      : a(side_of(p.a, p.a_dtype, p.rows, p.depth, p.a.row_stride, p.a.column_stride)),
        b(side_of(p.b, p.b_dtype, p.columns, p.depth, p.b.column_stride, p.b.row_stride)) {}
};

bool has_dense_axis(std::int64_t outer_stride, std::int64_t depth_stride) {
  return outer_stride == 1 || depth_stride == 1;
}

// The part of an operand that belongs to one segment of K.
DenseMatrix segment_of(const Side& side, std::int64_t first, std::int64_t depth) {
  DenseMatrix matrix = side.matrix;
  const std::int64_t step = side.transposed ? matrix.stride : 1;
  matrix.data = static_cast<const std::byte*>(matrix.data) + first * step * 2;
  (side.transposed ? matrix.outer : matrix.inner) = depth;
  return matrix;
}

// A sum in fp32 is wanted in between, and `out` cannot hold it.
bool needs_partial(const Product& product) {
  return product.depth > order::kSegment && product.out_dtype != DType::kFloat32;
}

template <class T, class Tile>
void run_tiles(const Product& product, int group, float* partial, const core::DeviceCall& call) {
  const Sides sides(product);
  ProductShape shape;
  shape.rows = static_cast<int>(product.rows);
  shape.columns = static_cast<int>(product.columns);
  shape.count = product.row_bound;
  shape.first = product.row_first;
  shape.group = group;
  for (std::int64_t first = 0; first < product.depth; first += order::kSegment) {
    const std::int64_t depth = std::min(order::kSegment, product.depth - first);
    const bool last = first + depth == product.depth;
    const DenseMatrix a = segment_of(sides.a, first, depth), b = segment_of(sides.b, first, depth);
    const T* bias = last ? static_cast<const T*>(product.bias) : nullptr;
    shape.depth = static_cast<int>(depth);
    if (last && product.out_dtype != DType::kFloat32) {
      StoreRounded<T> epilogue{};
      const DenseMatrix out{product.out, product.out_dtype, product.columns, product.rows,
                            product.out_row_stride};
      // The engine knows nothing of a number of rows on the device.
      epilogue.copied = product.row_bound == nullptr && can_tensor_store(out);
      if (epilogue.copied) epilogue.map = tensor_map(out, 16);
      epilogue.out = static_cast<T*>(product.out);
      epilogue.stride = product.out_row_stride;
      epilogue.columns = shape.columns;
      epilogue.partial = first > 0 ? partial : nullptr;
      epilogue.partial_stride = product.columns;
      epilogue.bias = bias;
      epilogue.bias_stride = product.bias_stride;
      launch_product<Tile>("sm90_product", a, b, shape, epilogue, call);
    } else {
      const bool into_out = partial == nullptr;
      const StoreSegment<T> epilogue{into_out ? static_cast<float*>(product.out) : partial,
                                     into_out ? product.out_row_stride : product.columns,
                                     shape.columns,
                                     first == 0,
                                     bias,
                                     product.bias_stride};
      launch_product<Tile>("sm90_product", a, b, shape, epilogue, call);
    }
  }
}

template <class T>
void run_type(const Product& product, const Sm90Choice& choice, float* partial,
              const core::DeviceCall& call) {
  const auto run = [&]<bool a_transposed, bool b_transposed>() {
    with_form<Sm90Use::kPlain, T, a_transposed, b_transposed>(
        choice.form, [&]<class Tile>() { run_tiles<T, Tile>(product, choice.group, partial, call); });
  };
  const Sides sides(product);
  if (sides.a.transposed)
    sides.b.transposed ? run.template operator()<true, true>() : run.template operator()<true, false>();
  else
    sides.b.transposed ? run.template operator()<false, true>() : run.template operator()<false, false>();
}

}  // namespace

std::string no_sm90_product(const Product& product, Device device) {
  if (!product.tc16) return "it computes contract='tc16' alone";
  if (traits(device).major != 9)
    return "it needs a GPU of compute capability 9.0; this one is " + traits(device).architecture;
  if (product.depth_bound != nullptr) return "it does not cut the depth on the device";
  if (product.rows == 0 || product.columns == 0 || product.depth == 0) return "the product is empty";
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (product.rows > kMost || product.columns > kMost)
    return "the product has more than 2^30 rows or columns";
  if (!has_dense_axis(product.a.row_stride, product.a.column_stride)) return "a has no dense axis";
  if (!has_dense_axis(product.b.column_stride, product.b.row_stride)) return "b has no dense axis";
  const Sides sides(product);
  if (const char* why = no_tensor_map(sides.a.matrix))
    return "the copy engine cannot read a, which " + std::string(why);
  if (const char* why = no_tensor_map(sides.b.matrix))
    return "the copy engine cannot read b, which " + std::string(why);
  return "";
}

std::size_t sm90_product_scratch_bytes(const Product& product, Device) {
  return needs_partial(product) ? static_cast<std::size_t>(product.rows * product.columns) * sizeof(float)
                                : 0;
}

void product_sm90(const Product& product, const core::DeviceCall& call) {
  product_sm90_by(sm90_choices(), product, call);
}

void product_sm90_by(Sm90Choices choices, const Product& product, const core::DeviceCall& call) {
  const Sm90Choice& choice = *find_choice(choices, Sm90Use::kPlain, product.rows, product.depth);
  Scratch scratch(call, Scratch::rounded(sm90_product_scratch_bytes(product, call.device)));
  float* partial = needs_partial(product)
                       ? static_cast<float*>(scratch.take(sm90_product_scratch_bytes(product, call.device)))
                       : nullptr;
  product.a_dtype == DType::kBFloat16 ? run_type<order::BFloat16>(product, choice, partial, call)
                                      : run_type<order::Float16>(product, choice, partial, call);
}

}  // namespace samebits::cuda
