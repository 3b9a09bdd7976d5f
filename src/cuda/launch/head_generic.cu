#include "cuda/launch/head_generic.h"

#include "cuda/kernel/head_generic.cuh"
#include "cuda/launch/launch.h"
#include "cuda/launch/product.h"
#include "cuda/launch/product_tiles.h"

namespace samebits::cuda {
namespace {

template <class Row>
class GenericEngine : public HeadEngine {
 public:
  using Real = typename Row::Real;

  explicit GenericEngine(const HeadShape& shape) : shape_(shape) {}

  const char* name() const override { return "generic"; }
  std::size_t scratch_bytes(std::int64_t rows) const override {
    const std::int64_t segment = std::min(shape_.vocab, order::kSegment), size = shape_.hidden_size;
    return std::max(ProductTiles<Real>::bytes(rows, std::max(shape_.vocab, size)),
                    ProductTiles<Real>::bytes(segment, size));
  }

  void use_scratch(void* memory) override { tiles_.buffer = static_cast<Real*>(memory); }

  void block_stats(const StatsTask& task, const core::DeviceCall& call) override {
    logits(task.range, task.hidden, 0, shape_.vocab, call, [&](const ProductTile<Real>& tile) {
      const std::int64_t groups = (tile.rows + kBlockWarps - 1) / kBlockWarps;
      launch("tile_stats", tile_stats<Row>, {groups * order::block_count(tile.columns), 32 * kBlockWarps},
             call, tile, task);
    });
  }

  void fill_p(const PTask& task, const core::DeviceCall& call) override {
    logits(task.range, task.hidden, task.column, task.columns, call, [&](const ProductTile<Real>& tile) {
      launch("tile_p", p_kernel(), shape_of(tile), call, tile, task);
    });
  }

  void add_hidden(const HiddenTask& task, const core::DeviceCall& call) override {
    for (const Segment& segment : task.segments)
      tiles_.cover(task.range.rows, shape_.hidden_size, [&](const ProductTile<Real>& tile) {
        Product product = blank(tile);
        product.depth = segment.columns;
        product.a_dtype = stored_dtype(shape_);
        product.a = {element_at(task.p, product.a_dtype, tile.row * task.p_stride + segment.first),
                     task.p_stride, 1};
        product.b = {element_at(shape_.weight.data, shape_.dtype,
                                (task.column + segment.first) * shape_.weight.row_stride +
                                    tile.column * shape_.weight.column_stride),
                     shape_.weight.row_stride, shape_.weight.column_stride};
        product.row_first = task.range.first + tile.row;
        product.row_bound = task.range.count;
        segment_product(product, call);
        if constexpr (sizeof(Real) == 4)
          launch("tile_counts", tile_counts, shape_of(tile), call, tile, task, shape_.hidden_size);
        else
          launch("tile_sums", tile_sums<double>, shape_of(tile), call, tile,
                 reinterpret_cast<double*>(task.counts) + task.range.first * shape_.hidden_size,
                 shape_.hidden_size, task.range.first, task.range.count);
      });
  }

  void add_weight(const WeightTask& task, const core::DeviceCall& call) override {
    Real* const total = reinterpret_cast<Real*>(task.total);
    const std::int64_t size = shape_.hidden_size;
    // The first segment goes to its place at once: a chain never ends in -0, so adding it to +0 changes nothing.
    if (task.range.first == 0) return weight_product(task, {total, size, 0, task.columns, 0, size}, call);
    tiles_.cover(task.columns, size, [&](const ProductTile<Real>& tile) {
      weight_product(task, tile, call);
      launch("tile_sums", tile_sums<Real>, shape_of(tile), call, tile, total, size, std::int64_t{0},
             static_cast<const std::int32_t*>(nullptr));
    });
  }

 private:
  static LaunchShape shape_of(const ProductTile<Real>& tile) {
    return {tile.rows * ((tile.columns + kTileColumns - 1) / kTileColumns), kTileThreads};
  }

  auto p_kernel() const {
    if constexpr (sizeof(Real) == 8)
      return tile_p<Row, double>;
    else if (!shape_.tc16)
      return tile_p<Row, float>;
    else
      return shape_.dtype == DType::kBFloat16 ? tile_p<Row, order::BFloat16> : tile_p<Row, order::Float16>;
  }

  // A product of the shape of a tile, into it.
  Product blank(const ProductTile<Real>& tile) const {
    Product product;
    product.rows = tile.rows;
    product.columns = tile.columns;
    product.a_dtype = product.b_dtype = shape_.dtype;
    product.tc16 = shape_.tc16;
    product.out = tile.data;
    product.out_row_stride = tile.stride;
    return product;
  }

  // The same with the logits of the columns [column, column + columns) in the tile.
  template <class Body>
  void logits(const PositionRange& range, const GatheredRows& hidden, std::int64_t column,
              std::int64_t columns, const core::DeviceCall& call, Body&& body) const {
    tiles_.cover(range.rows, columns, [&](ProductTile<Real> tile) {
      tile.column += column;
      Product product = blank(tile);
      product.depth = shape_.hidden_size;
      product.a = {element_at(hidden.data, shape_.dtype, tile.row * hidden.stride), hidden.stride, 1};
      product.b = {element_at(shape_.weight.data, shape_.dtype, tile.column * shape_.weight.row_stride),
                   shape_.weight.column_stride, shape_.weight.row_stride};
      product.row_first = range.first + tile.row;
      product.row_bound = range.count;
      if (shape_.bias != nullptr) {
        product.bias = element_at(shape_.bias, shape_.dtype, tile.column * shape_.bias_stride);
        product.bias_stride = shape_.bias_stride;
      }
      segment_product(product, call);
      body(tile);
    });
  }

  // transpose(P) x X of the tile: its rows are columns of P, its columns elements of hidden.
  void weight_product(const WeightTask& task, const ProductTile<Real>& tile,
                      const core::DeviceCall& call) const {
    const DType stored = stored_dtype(shape_);
    Product product = blank(tile);
    product.a_dtype = product.b_dtype = stored;
    product.depth = task.range.rows;
    product.a = {element_at(task.p, stored, tile.row), 1, task.p_stride};
    product.b = {element_at(task.x, stored, tile.column), task.x_stride, 1};
    product.depth_first = task.range.first;
    product.depth_bound = task.range.count;
    segment_product(product, call);
  }

  const HeadShape shape_;
  ProductTiles<Real> tiles_;
};

}  // namespace

std::unique_ptr<HeadEngine> make_generic_head_engine(const HeadShape& shape) {
  if (shape.binary64) return std::make_unique<GenericEngine<order::Row64V1>>(shape);
  return std::make_unique<GenericEngine<order::RowV1>>(shape);
}

}  // namespace samebits::cuda
