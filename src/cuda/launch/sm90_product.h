// Products by the tensor cores of SM90a: what the launches of this kernel share.
#pragma once

#include <utility>

#include "cuda/kernel/sm90_product.cuh"
#include "cuda/launch/launch.h"
#include "cuda/launch/sm90_choices.h"
#include "cuda/launch/tensor_map.h"

namespace samebits::cuda {

template <class T, bool a_transposed, bool b_transposed, Sm90Form form>
using Sm90FormTile = Sm90Tile<T, a_transposed, b_transposed, form == Sm90Form::k256x192 ? 2 : 1,
                              form == Sm90Form::k64x128 || form == Sm90Form::k128x128 ? 128 : 192,
                              form == Sm90Form::k64x128 || form == Sm90Form::k64x192 ? 1 : 2>;

// body<Tile>() with the tile of the form, which is one of the use's.
template <Sm90Use use, class T, bool a_transposed, bool b_transposed, class Body>
void with_form(Sm90Form form, const Body& body) {
  constexpr std::span<const Sm90Form> forms = forms_of(use);
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((form == forms[i] ? body.template operator()<Sm90FormTile<T, a_transposed, b_transposed, forms[i]>>()
                       : void()),
     ...);
  }(std::make_index_sequence<forms.size()>());
}

// One launch over all tiles. `a` and `b` are stored with K dense, or M and N where the tile says transposed.
template <class Tile, class Epilogue>
void launch_product(const char* name, const DenseMatrix& a, const DenseMatrix& b, const ProductShape& shape,
                    const Epilogue& epilogue, const core::DeviceCall& call) {
  const CUtensorMap map_a = tensor_map(a, Tile::kBoxRowsA), map_b = tensor_map(b, Tile::kBoxRowsB);
  const std::int64_t cluster_rows = std::int64_t{Tile::kRows} * Tile::kCluster;
  constexpr int kColumns = (Epilogue::template kPairs<Tile> ? 2 : 1) * Tile::kColumns;
  const std::int64_t tiles = (shape.rows + cluster_rows - 1) / cluster_rows *
                             ((shape.columns + kColumns - 1) / kColumns) *
                             ((std::max(shape.parts, 1) + shape.together - 1) / shape.together);
  const std::int64_t clusters =
      std::min<std::int64_t>(tiles, traits(call.device).multiprocessors / Tile::kCluster);
  launch(name, sm90_product<Tile, Epilogue>,
         {clusters * Tile::kCluster, kProductThreads, ProductShared<Tile, Epilogue>::kBytes, Tile::kCluster,
          true},
         call, map_a, map_b, shape, epilogue);
}

}  // namespace samebits::cuda
