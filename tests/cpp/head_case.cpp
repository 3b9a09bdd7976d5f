#include "head_case.h"

#include <cstring>
#include <memory>

#include "order/number.h"
#include "ref/linear_logp_backward.h"
#include "ref/matmul.h"
#include "ref/numbers.h"
#include "run_case.h"

namespace samebits::test {
namespace {

// The call with its operands laid out, and the statistics of its forward pass: the twin's, or those of a CPU backend,
// which is faster.
struct Prepared {
  explicit Prepared(const HeadCase& head, bool by_twin = true)
      : c(head.logp),
        hidden(head.hidden, c.rows, head.size, head.hidden_lay),
        weight(head.weight, c.columns, head.size, head.weight_lay),
        real(head.hidden.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32),
        row_max(real, c.rows),
        row_sum(DType::kInt64, c.rows * (real == DType::kFloat64 ? 2 : 1)),
        row_entropy_sum(DType::kInt64, row_sum.count()) {
    core::LinearLogpProblem& to = problem.head;
    to.logp.rows = c.rows;
    to.logp.vocab = c.vocab;
    to.logp.columns = c.columns;
    to.logp.dtype = head.hidden.dtype;
    to.logp.binary64 = real == DType::kFloat64;
    to.logp.targets = rows_of(c.targets.data(), DType::kInt64);
    to.logp.temperature = c.temperature;
    to.logp.row_temperature = rows_of(c.row_temperature);
    if (c.selected) {
      selected.assign(static_cast<std::size_t>(c.rows / 64 + 1), 0);
      for (const std::int64_t row : *c.selected)
        if (row >= 0 && row < c.rows) selected[static_cast<std::size_t>(row / 64)] |= 1ull << (row % 64);
      to.logp.selected = selected.data();
    }
    to.logp.has_ignore_index = c.ignore_index.has_value();
    to.logp.ignore_index = c.ignore_index.value_or(0);
    to.logp.row_max = row_max.bytes.data();
    to.logp.row_sum = row_sum.bytes.data();
    to.logp.row_entropy_sum = row_entropy_sum.bytes.data();
    to.tc16 = head.tc16();
    to.hidden_size = head.size;
    to.hidden = {hidden.view().data, head.hidden.dtype, core::RowIndex::of(hidden.view(), 1)};
    to.hidden_stride = hidden.view().strides[1];
    to.weight = {weight.view().data, weight.view().strides[0], weight.view().strides[1]};
    to.bias = head.bias.count() > 0 ? head.bias.bytes.data() : nullptr;
    if (by_twin) {
      ref::linear_logp_forward(to);
    } else {
      Residence host;
      const LogpResult forward = head_forward(head, {}, {}, host);
      row_max.bytes = forward.row_max.bytes;
      row_sum.bytes = forward.row_sum.bytes;
      row_entropy_sum.bytes = forward.row_entropy_sum.bytes;
    }
    to.logp.saved_max = row_max.bytes.data();
    to.logp.saved_sum = row_sum.bytes.data();
    to.logp.saved_entropy_sum = row_entropy_sum.bytes.data();
    to.logp.grad_logp = rows_of(c.grad_logp);
    to.logp.grad_lse = rows_of(c.grad_lse);
    to.logp.grad_entropy = rows_of(c.grad_entropy);
    problem.weight_rows = c.columns;
  }

  core::RowArray<const void> rows_of(const void* data, DType dtype) const {
    const ConstTensorView view(data, dtype, {c.rows});
    return {data, dtype, core::RowIndex::of(view, 1)};
  }
  core::RowArray<const void> rows_of(const Values& values) const {
    if (values.count() == 0) return {};
    return rows_of(values.bytes.data(), values.dtype);
  }

  const LogpCase& c;
  Matrix hidden, weight;
  DType real;
  Values row_max, row_sum, row_entropy_sum;
  std::vector<std::uint64_t> selected;
  core::LinearLogpGradient problem;
};

HeadGradients outputs(const HeadCase& head, DType real, const Wanted& wanted) {
  const DType dtype = head.hidden.dtype;
  HeadGradients out;
  if (wanted.hidden) out.hidden = Values(dtype, head.logp.rows * head.size, kFill);
  if (wanted.weight) {
    out.weight = Values(wanted.accumulate ? real : dtype, head.logp.columns * head.size, kFill);
    if (wanted.accumulate)
      for (std::int64_t i = 0; i < out.weight.count(); ++i) set_element(out.weight, i, kAccumulated);
  }
  if (wanted.bias && head.bias.count() > 0) out.bias = Values(dtype, head.logp.columns, kFill);
  return out;
}

// The inputs of a call where it finds them. What is absent stays so.
struct Inputs {
  Inputs(const HeadCase& head, Matrix& hidden_matrix, Matrix& weight_matrix, Residence& where)
      : residence(where), options(options_of(head.logp)) {
    const LogpCase& c = head.logp;
    hidden = enter(hidden_matrix);
    weight = enter(weight_matrix);
    targets = enter(c.targets, c.rows);
    bias = rows(head.bias);
    options.row_temperature = rows(c.row_temperature);
    if (c.selected) options.rows = enter(*c.selected, static_cast<std::int64_t>(c.selected->size()));
  }

  ConstTensorView rows(const Values& values) {
    if (values.count() == 0) return {};
    kept.push_back(std::make_unique<Values>(values));
    Values& copy = *kept.back();
    return residence.enter(copy.bytes, {copy.bytes.data(), copy.dtype, {copy.count()}});
  }

  Residence& residence;
  LogpOptions options;
  ConstTensorView hidden, weight, targets, bias;

 private:
  ConstTensorView enter(Matrix& matrix) {
    const ConstTensorView view = matrix.view();
    TensorView same(const_cast<void*>(view.data), view.dtype, std::span(view.shape.data(), 2),
                    std::span(view.strides.data(), 2));
    return residence.enter(matrix.storage(), same);
  }
  ConstTensorView enter(const std::vector<std::int64_t>& list, std::int64_t count) {
    // Present, though it may have no element.
    kept.push_back(std::make_unique<Values>(DType::kInt64, std::max<std::int64_t>(count, 1)));
    Values& copy = *kept.back();
    std::copy(list.begin(), list.end(), copy.as<std::int64_t>());
    return residence.enter(copy.bytes, {copy.bytes.data(), copy.dtype, {count}});
  }

  std::vector<std::unique_ptr<Values>> kept;
};

HeadGradients gradients_of(Prepared call, const HeadCase& head, const ExecContext& context,
                           const Wanted& wanted, Residence& residence, const KeptP* kept = nullptr) {
  const LogpCase& c = head.logp;
  Inputs in(head, call.hidden, call.weight, residence);
  const auto saved = [&](Values& values) {
    return residence.enter(values.bytes, {values.bytes.data(), values.dtype, {values.count()}});
  };
  const LogpStats stats{saved(call.row_max), saved(call.row_sum), saved(call.row_entropy_sum)};
  HeadGradients out = outputs(head, call.real, wanted);
  const auto gradient = [&](Values& values, std::initializer_list<std::int64_t> shape) {
    return residence.enter(values.bytes, {values.bytes.data(), values.dtype, shape});
  };
  LinearLogpGradients gradients;
  if (wanted.hidden) gradients.hidden = gradient(out.hidden, {c.rows, head.size});
  if (wanted.weight)
    (wanted.accumulate ? gradients.weight_accumulator : gradients.weight) =
        gradient(out.weight, {c.columns, head.size});
  if (out.bias.count() > 0) gradients.bias = gradient(out.bias, {c.columns});
  const LogpUpstream upstream{in.rows(c.grad_logp), in.rows(c.grad_lse), in.rows(c.grad_entropy)};
  const TensorView p = kept == nullptr ? TensorView() : residence.enter(kept->storage(), kept->view());
  linear_logp_backward(in.hidden, in.weight, in.targets, in.bias, in.options, stats, upstream, gradients,
                       head.contract, context, p);
  residence.bring_back();
  return out;
}

}  // namespace

KeptP::KeptP(std::int64_t rows, std::int64_t vocab)
    : rows_(rows),
      columns_((vocab + 63) / 64 * 64),
      room_(static_cast<std::size_t>(2 * rows_ * columns_ + 64), kFill) {}

std::span<std::byte> KeptP::storage() const {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(room_.data()) % 64;
  return {room_.data() + (64 - past) % 64, static_cast<std::size_t>(2 * rows_ * columns_)};
}

std::uint16_t KeptP::at(std::int64_t row, std::int64_t column) const {
  std::uint16_t bits = 0;
  std::memcpy(&bits, storage().data() + 2 * (row * columns_ + column), sizeof bits);
  return bits;
}

HeadCase random_head_case(Rng& rng, std::int64_t rows, std::int64_t vocab, std::int64_t size, DType dtype) {
  HeadCase head;
  head.logp = plain_case(rows, vocab, dtype);
  head.logp.logits = Values(dtype, 0);
  head.size = size;
  head.hidden = normal_elements(rng, dtype, rows * size);
  head.weight = normal_elements(rng, dtype, vocab * size);
  for (std::int64_t& target : head.logp.targets) target = rng.below(vocab);
  head.logp.grad_logp = normal_elements(rng, head.logp.real(), rows);
  return head;
}

HeadCase take_rows(const HeadCase& head, const std::vector<std::int64_t>& picked) {
  HeadCase part = head;
  part.logp = take_rows(head.logp, picked);
  part.hidden = take(head.hidden, head.size, picked);
  return part;
}

HeadGradients head_gradients(const HeadCase& head, const std::string& backend, int threads,
                             const Wanted& wanted) {
  ExecContext context;
  context.backend = backend;
  context.threads = threads;
  Residence host;
  return gradients_of(Prepared(head), head, context, wanted, host);
}

HeadGradients head_gradients(const HeadCase& head, const ExecContext& context, const Wanted& wanted,
                             Residence& residence, const KeptP* kept) {
  return gradients_of(Prepared(head, false), head, context, wanted, residence, kept);
}

LogpResult head_forward(const HeadCase& head, const ExecContext& context, const WantedRows& wanted,
                        Residence& residence, const KeptP* kept) {
  const LogpCase& c = head.logp;
  Matrix hidden(head.hidden, c.rows, head.size, head.hidden_lay);
  Matrix weight(head.weight, c.columns, head.size, head.weight_lay);
  Inputs in(head, hidden, weight, residence);
  LogpResult result(c);
  const auto output = [&](Values& values, bool asked) -> TensorView {
    if (!asked) return {};
    return residence.enter(values.bytes, {values.bytes.data(), values.dtype, {values.count()}});
  };
  const LogpOutputs outputs{output(result.logp, true),
                            output(result.lse, wanted.lse),
                            output(result.entropy, wanted.entropy),
                            output(result.row_max, wanted.stats),
                            output(result.row_sum, wanted.stats),
                            output(result.row_entropy_sum, wanted.stats && wanted.entropy)};
  const TensorView p = kept == nullptr ? TensorView() : residence.enter(kept->storage(), kept->view());
  linear_logp_forward(in.hidden, in.weight, in.targets, in.bias, in.options, outputs, {head.contract},
                      context, p);
  residence.bring_back();
  return result;
}

Values twin_p(const HeadCase& head) {
  const Prepared call(head, false);
  const core::LogpProblem& logp = call.problem.head.logp;
  Values x(DType::kFloat32, head.logp.rows * head.logp.columns);
  MatmulOptions options;
  options.contract = "tc16";
  const ConstTensorView bias(head.bias.bytes.data(), head.bias.dtype, {head.bias.count()});
  if (head.bias.count() > 0) options.bias = bias;
  matmul(call.hidden.view(), call.weight.transposed(),
         {x.bytes.data(), x.dtype, {head.logp.rows, head.logp.columns}}, options);
  std::vector<std::uint16_t> p;
  for (std::int64_t row = 0; row < logp.rows; ++row) {
    const std::int64_t target = logp.target(row);
    if (logp.kind(row, target) != core::RowKind::kLive) continue;
    const float it = 1.0f / static_cast<float>(logp.tau(row)), max = call.row_max.as<float>()[row];
    const auto z = [&](std::int64_t v) { return x.as<float>()[row * head.logp.columns + v] * it; };
    const float reference = max - z(target) <= 60.0f ? z(target) : max;
    for (std::int64_t v = 0; v < logp.vocab; ++v) {
      float value = v == target || max == -INFINITY ? 0.0f : ref::e0(z(v) - reference);
      if (std::isnan(max) || max == INFINITY) value = ref::Numbers<float>::nan();
      p.push_back(order::round_to<order::BFloat16>(value).bits);
    }
  }
  Values result(DType::kBFloat16, static_cast<std::int64_t>(p.size()));
  std::copy(p.begin(), p.end(), result.as<std::uint16_t>());
  return result;
}

HeadGradients twin_gradients(const HeadCase& head, const Wanted& wanted) {
  Prepared call(head);
  HeadGradients out = outputs(head, call.real, wanted);
  core::LinearLogpGradient& problem = call.problem;
  const ConstTensorView dense(nullptr, head.hidden.dtype, {head.logp.rows, head.size});
  if (wanted.hidden)
    problem.grad_hidden = {out.hidden.bytes.data(), out.hidden.dtype, core::RowIndex::of(dense, 1)};
  if (wanted.weight) problem.grad_weight = out.weight.bytes.data();
  problem.grad_weight_stride = head.size;
  problem.accumulate = wanted.accumulate;
  if (out.bias.count() > 0) problem.grad_bias = out.bias.bytes.data();
  ref::linear_logp_backward(problem);
  return out;
}

::testing::AssertionResult same_gradients(const HeadGradients& expected, const HeadGradients& actual,
                                          Finite finite) {
  const struct {
    const char* name;
    const Values &expected, &actual;
  } fields[] = {{"grad_hidden", expected.hidden, actual.hidden},
                {"grad_weight", expected.weight, actual.weight},
                {"grad_bias", expected.bias, actual.bias}};
  for (const auto& field : fields) {
    if (field.expected.count() == 0 && field.actual.count() == 0) continue;
    const auto same = same_bits(field.expected, field.actual, finite);
    if (!same) return ::testing::AssertionFailure() << field.name << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace samebits::test
