#include "cli/selftest_embedding.h"

#include <samebits/embedding.h>

#include "ref/embedding.h"

namespace samebits::cli {
namespace {

// Repeats, one id in five out of range, and a padding row.
std::vector<std::int64_t> ids_of(const ProductCase& test) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(test.rows));
  for (std::int64_t row = 0; row < test.rows; ++row)
    ids[static_cast<std::size_t>(row)] = row % 5 == 4 ? test.columns : row * row % test.columns;
  return ids;
}

// Room for the rows, then the gradient.
std::vector<std::byte> outputs(const ProductCase& test) {
  return std::vector<std::byte>(test.a.size() + test.b.size());
}

}  // namespace

std::vector<std::byte> embedding_by_library(const ProductCase& test, const ExecContext& context) {
  const std::vector<std::int64_t> ids = ids_of(test);
  std::vector<std::byte> out = outputs(test);
  const ConstTensorView ids_view(ids.data(), DType::kInt64, {test.rows});
  const TensorView rows(out.data(), test.dtype, {test.rows, test.depth});
  const TensorView gradient(out.data() + test.a.size(), test.dtype, {test.columns, test.depth});
  EmbeddingOptions options;
  options.padding_idx = 0;
  embedding_forward(ids_view, ConstTensorView(test.b.data(), test.dtype, {test.columns, test.depth}), rows,
                    options, context);
  embedding_backward(ids_view, ConstTensorView(test.a.data(), test.dtype, {test.rows, test.depth}),
                     {gradient, {}}, options, context);
  return out;
}

std::vector<std::byte> embedding_by_twin(const ProductCase& test) {
  const std::vector<std::int64_t> ids = ids_of(test);
  std::vector<std::byte> out = outputs(test);
  const ConstTensorView ids_view(ids.data(), DType::kInt64, {test.rows});
  const TensorView rows(out.data(), test.dtype, {test.rows, test.depth});
  core::EmbeddingProblem problem;
  problem.rows = test.rows;
  problem.vocab = test.columns;
  problem.columns = test.depth;
  problem.dtype = test.dtype;
  problem.ids = {ids.data(), DType::kInt64, core::RowIndex::of(ids_view, 1)};
  problem.weight = {test.b.data(), test.depth, 1};
  problem.out = {out.data(), test.dtype, core::RowIndex::of(rows, 1)};
  problem.nan_on_invalid = true;
  problem.has_padding = true;
  problem.padding = 0;
  problem.grad = {test.a.data(), test.dtype, problem.out.index};
  problem.grad_weight = out.data() + test.a.size();
  problem.grad_weight_stride = test.depth;
  ref::embedding_forward(problem);
  ref::embedding_backward(problem);
  return out;
}

}  // namespace samebits::cli
