#include "embedding_case.h"

#include <algorithm>

#include "head_case.h"
#include "logp_case.h"
#include "ref/embedding.h"

namespace samebits::test {
namespace {

DType accumulator_dtype(const EmbeddingCase& c) {
  return c.weight.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// What the gradient is written to.
Values initial_gradient(const EmbeddingCase& c) {
  if (!c.accumulate) return Values(c.weight.dtype, c.vocab * c.columns, kFill);
  Values values(accumulator_dtype(c), c.vocab * c.columns);
  for (std::int64_t i = 0; i < values.count(); ++i) set_element(values, i, kAccumulated);
  return values;
}

Values id_values(const EmbeddingCase& c, bool narrow) {
  Values values(narrow ? DType::kInt32 : DType::kInt64, static_cast<std::int64_t>(c.ids.size()));
  for (std::size_t i = 0; i < c.ids.size(); ++i) {
    if (narrow)
      values.as<std::int32_t>()[i] = static_cast<std::int32_t>(c.ids[i]);
    else
      values.as<std::int64_t>()[i] = c.ids[i];
  }
  return values;
}

bool fits_narrow(std::int64_t id) { return id == static_cast<std::int32_t>(id); }

EmbeddingGradients gradients_of(const EmbeddingCase& c, const TensorView& view) {
  return c.accumulate ? EmbeddingGradients{{}, view} : EmbeddingGradients{view, {}};
}

}  // namespace

EmbeddingCase embedding_case(Rng& rng, std::int64_t count, std::int64_t vocab, std::int64_t columns,
                             DType dtype) {
  EmbeddingCase c;
  c.vocab = vocab;
  c.columns = columns;
  // Half of the ids are among the first few.
  for (std::int64_t i = 0; i < count; ++i)
    c.ids.push_back(rng.below(rng.chance(2) ? std::min<std::int64_t>(vocab, 3) : vocab));
  c.weight = normal_elements(rng, dtype, vocab * columns);
  c.grad = normal_elements(rng, dtype, count * columns);
  return c;
}

EmbeddingCase random_embedding_case(Rng& rng) {
  const DType dtype = rng.pick({DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16});
  const std::int64_t columns = rng.chance(3) ? 8 * rng.between(1, 40) : rng.between(1, 300);
  EmbeddingCase c = embedding_case(rng, rng.between(0, 60), rng.between(1, 90), columns, dtype);
  if (rng.chance(2)) c.grad = random_elements(rng, dtype, c.grad.count());
  if (rng.chance(2)) c.weight = random_elements(rng, dtype, c.weight.count());
  for (std::int64_t& id : c.ids)
    if (rng.chance(8))
      id = rng.pick<std::int64_t>({-100, -1, c.vocab, (std::int64_t{1} << 32) + 1, INT64_MAX});
  if (rng.chance(2)) c.options.padding_idx = rng.below(std::min<std::int64_t>(c.vocab, 4));
  if (rng.chance(2)) c.options.on_invalid = OnInvalid::kZero;
  c.accumulate = rng.chance(3);
  return c;
}

EmbeddingLayout random_embedding_layout(Rng& rng, const EmbeddingCase& c) {
  const auto placement = [&] {
    Placement p;
    if (rng.chance(2)) p.gap = rng.pick<std::int64_t>({1, 5, 8, 64});
    p.reversed = rng.chance(4);
    p.offset = rng.chance(2) ? rng.pick<std::int64_t>({1, 3, 8}) : 0;
    return p;
  };
  EmbeddingLayout layout;
  if (c.ids.size() % 6 == 0 && rng.chance(2)) {
    layout.leading = {2, 3, static_cast<std::int64_t>(c.ids.size()) / 6};
    if (rng.chance(2)) layout.grad.order = {1, 0, 2};
    if (rng.chance(2)) layout.ids.order = {2, 1, 0};
  }
  if (rng.chance(2)) {
    const std::vector<int> ids_order = layout.ids.order, grad_order = layout.grad.order;
    layout.ids = placement();
    layout.weight = placement();
    layout.grad = placement();
    layout.out = placement();
    layout.gradient = placement();
    layout.ids.order = ids_order;
    layout.grad.order = grad_order;
  }
  layout.apart = rng.chance(4);
  layout.narrow_ids = rng.chance(2) && std::ranges::all_of(c.ids, fits_narrow);
  layout.with_workspace = rng.chance(2);
  return layout;
}

EmbeddingResult embedding_twin(const EmbeddingCase& c) {
  const auto count = static_cast<std::int64_t>(c.ids.size());
  EmbeddingResult result{Values(c.weight.dtype, count * c.columns), initial_gradient(c)};
  const ConstTensorView ids(c.ids.data(), DType::kInt64, {count});
  const ConstTensorView grad(c.grad.bytes.data(), c.grad.dtype, {count, c.columns});
  const TensorView out(result.out.bytes.data(), c.weight.dtype, {count, c.columns});
  core::EmbeddingProblem problem;
  problem.rows = count;
  problem.vocab = c.vocab;
  problem.columns = c.columns;
  problem.dtype = c.weight.dtype;
  problem.ids = {ids.data, ids.dtype, core::RowIndex::of(ids, 1)};
  problem.weight = {c.weight.bytes.data(), c.columns, 1};
  problem.out = {out.data, out.dtype, core::RowIndex::of(out, 1)};
  problem.nan_on_invalid = c.options.on_invalid == OnInvalid::kNan;
  problem.has_padding = c.options.padding_idx.has_value();
  problem.padding = c.options.padding_idx.value_or(0);
  problem.grad = {grad.data, grad.dtype, core::RowIndex::of(grad, 1)};
  problem.grad_weight = result.gradient.bytes.data();
  problem.grad_weight_stride = c.columns;
  problem.accumulate = c.accumulate;
  ref::embedding_forward(problem);
  ref::embedding_backward(problem);
  return result;
}

EmbeddingResult embedding_call(const EmbeddingCase& c, const EmbeddingLayout& layout, const ExecContext& base,
                               Residence& residence) {
  const DType dtype = c.weight.dtype;
  std::vector<std::int64_t> leading = layout.leading;
  if (leading.empty()) leading = {static_cast<std::int64_t>(c.ids.size())};
  // Columns that lie apart are one more leading dimension; a gap keeps them from being dense.
  const auto matrix = [&](std::vector<std::int64_t> rows, Placement placement) {
    if (!layout.apart) return std::make_unique<Strided>(dtype, rows, c.columns, placement);
    rows.push_back(c.columns);
    if (!placement.order.empty()) placement.order.push_back(static_cast<int>(rows.size()) - 1);
    placement.gap += 1;
    return std::make_unique<Strided>(dtype, rows, -1, placement);
  };
  const Values id_bytes = id_values(c, layout.narrow_ids);
  Strided ids(id_bytes.dtype, leading, -1, layout.ids);
  ids.scatter(id_bytes);
  const auto weight = matrix({c.vocab}, layout.weight), grad = matrix(leading, layout.grad);
  weight->scatter(c.weight);
  grad->scatter(c.grad);
  Strided out(dtype, leading, c.columns, layout.out);
  Strided gradient(c.accumulate ? accumulator_dtype(c) : dtype, {c.vocab}, c.columns, layout.gradient);
  gradient.scatter(initial_gradient(c));

  const ConstTensorView ids_view = residence.enter(ids.storage(), ids.view());
  const ConstTensorView weight_view = residence.enter(weight->storage(), weight->view());
  const ConstTensorView grad_view = residence.enter(grad->storage(), grad->view());
  const TensorView out_view = residence.enter(out.storage(), out.view());
  const EmbeddingGradients gradients = gradients_of(c, residence.enter(gradient.storage(), gradient.view()));
  ExecContext context = base;
  if (layout.with_workspace)
    context.workspace = residence.workspace(
        embedding_backward_workspace_bytes(ids_view, grad_view, gradients, c.options, context));
  embedding_forward(ids_view, weight_view, out_view, c.options, context);
  embedding_backward(ids_view, grad_view, gradients, c.options, context);
  residence.bring_back();
  EXPECT_TRUE(out.gaps_are_untouched()) << "wrote between the rows of out";
  EXPECT_TRUE(gradient.gaps_are_untouched()) << "wrote between the rows of the gradient";
  EXPECT_TRUE(ids.is_untouched() && weight->is_untouched() && grad->is_untouched()) << "wrote into an input";
  return {out.gather(), gradient.gather()};
}

EmbeddingResult embedding_call(const EmbeddingCase& c, const EmbeddingLayout& layout,
                               const ExecContext& context) {
  Residence host;
  return embedding_call(c, layout, context, host);
}

::testing::AssertionResult same_embedding(const EmbeddingResult& expected, const EmbeddingResult& actual,
                                          Finite finite) {
  if (auto same = same_bits(expected.out, actual.out, finite); !same) return same << " (out)";
  if (auto same = same_bits(expected.gradient, actual.gradient, finite); !same) return same << " (gradient)";
  return ::testing::AssertionSuccess();
}

}  // namespace samebits::test
