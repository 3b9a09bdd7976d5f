#include "cli/selftest_head.h"

#include <samebits/linear_logp.h>

#include "core/linear_logp_gradient.h"
#include "ref/linear_logp_backward.h"
#include "ref/matmul.h"

namespace samebits::cli {
namespace {

core::RowIndex dense_rows(std::int64_t rows, std::int64_t stride) {
  const std::int64_t shape[] = {rows}, strides[] = {stride};
  const ConstTensorView view(nullptr, DType::kFloat32, std::span(shape), std::span(strides));
  return core::RowIndex::of(view, 1);
}

// What both sides read: targets, upstreams and the statistics of the twin's forward pass.
struct HeadInputs {
  explicit HeadInputs(const ProductCase& test)
      : real(test.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32),
        sum_words(real == DType::kFloat64 ? 2 : 1),
        with_entropy(test.columns % 2 == 0),
        targets(static_cast<std::size_t>(test.rows)),
        sums(static_cast<std::size_t>(test.rows * sum_words)),
        entropy_sums(sums.size()),
        row_max(static_cast<std::size_t>(test.rows * dtype_size(real))),
        upstream(row_max.size()) {
    for (std::int64_t row = 0; row < test.rows; ++row) {
      targets[static_cast<std::size_t>(row)] = row % test.columns;
      store_element(upstream, real, row, static_cast<double>(row % 5) - 1.75);
    }
    head.logp.rows = test.rows;
    head.logp.vocab = head.logp.columns = test.columns;
    head.logp.dtype = test.dtype;
    head.logp.binary64 = real == DType::kFloat64;
    head.logp.targets = {targets.data(), DType::kInt64, dense_rows(test.rows, 1)};
    head.logp.row_max = row_max.data();
    head.logp.row_sum = sums.data();
    head.logp.row_entropy_sum = entropy_sums.data();
    head.tc16 = test.tc16;
    head.hidden_size = test.depth;
    head.hidden = {test.a.data(), test.dtype, dense_rows(test.rows, test.depth)};
    head.weight = {test.b.data(), test.depth, 1};
    ref::linear_logp_forward(head);
    head.logp.saved_max = row_max.data();
    head.logp.saved_sum = sums.data();
    head.logp.saved_entropy_sum = entropy_sums.data();
    head.logp.grad_logp = {upstream.data(), real, dense_rows(test.rows, 1)};
    if (with_entropy) head.logp.grad_entropy = head.logp.grad_logp;
  }

  DType real;
  std::int64_t sum_words;
  bool with_entropy;
  std::vector<std::int64_t> targets;
  std::vector<std::uint64_t> sums, entropy_sums;
  std::vector<std::byte> row_max, upstream;
  core::LinearLogpProblem head;
};

// Room for grad_hidden, then grad_weight.
std::vector<std::byte> outputs(const ProductCase& test) {
  return std::vector<std::byte>(test.a.size() + test.b.size());
}

}  // namespace

std::vector<std::byte> head_gradients_by_library(const ProductCase& test, const ExecContext& context) {
  const HeadInputs inputs(test);
  std::vector<std::byte> out = outputs(test);
  const ConstTensorView upstream(inputs.upstream.data(), inputs.real, {test.rows});
  const auto sums = [&](const std::vector<std::uint64_t>& words) {
    return ConstTensorView(words.data(), DType::kInt64, {static_cast<std::int64_t>(words.size())});
  };
  LinearLogpGradients gradients;
  gradients.hidden = TensorView(out.data(), test.dtype, {test.rows, test.depth});
  gradients.weight = TensorView(out.data() + test.a.size(), test.dtype, {test.columns, test.depth});
  linear_logp_backward(ConstTensorView(test.a.data(), test.dtype, {test.rows, test.depth}),
                       ConstTensorView(test.b.data(), test.dtype, {test.columns, test.depth}),
                       ConstTensorView(inputs.targets.data(), DType::kInt64, {test.rows}), {}, {},
                       {ConstTensorView(inputs.row_max.data(), inputs.real, {test.rows}), sums(inputs.sums),
                        sums(inputs.entropy_sums)},
                       {upstream, {}, inputs.with_entropy ? upstream : ConstTensorView()}, gradients,
                       test.tc16 ? "tc16" : "fma", context);
  return out;
}

std::vector<std::byte> head_gradients_by_twin(const ProductCase& test) {
  const HeadInputs inputs(test);
  std::vector<std::byte> out = outputs(test);
  core::LinearLogpGradient problem;
  problem.head = inputs.head;
  problem.weight_rows = test.columns;
  problem.grad_hidden = {out.data(), test.dtype, dense_rows(test.rows, test.depth)};
  problem.grad_weight = out.data() + test.a.size();
  problem.grad_weight_stride = test.depth;
  ref::linear_logp_backward(problem);
  return out;
}

}  // namespace samebits::cli
