#include "logp_case.h"

#include <algorithm>
#include <cstring>

#include "order/number.h"
#include "ref/logp.h"
#include "ref/row_ops.h"
#include "strided.h"

namespace samebits::test {
namespace {

core::RowIndex dense_index(std::int64_t rows, std::int64_t stride) {
  core::RowIndex index;
  index.rank = 1;
  index.shape[0] = rows;
  index.strides[0] = stride;
  return index;
}

core::RowArray<void> output(Values& values, std::int64_t rows, std::int64_t stride = 1) {
  return {values.bytes.data(), values.dtype, dense_index(rows, stride)};
}

core::RowArray<const void> input(const Values& values, std::int64_t rows, std::int64_t stride = 1) {
  if (values.bytes.empty()) return {};
  return {values.bytes.data(), values.dtype, dense_index(rows, stride)};
}

}  // namespace

LogpResult::LogpResult(const LogpCase& c)
    : logp(c.real(), c.rows, kFill),
      lse(c.real(), c.rows, kFill),
      entropy(c.real(), c.rows, kFill),
      row_max(c.real(), c.rows, kFill),
      row_sum(DType::kInt64, c.rows * (c.binary64() ? 2 : 1), kFill),
      row_entropy_sum(DType::kInt64, c.rows * (c.binary64() ? 2 : 1), kFill),
      grad(c.logits.dtype, c.rows * c.columns, kFill),
      probabilities(c.real(), c.rows * c.columns, kFill) {}

LogpCase plain_case(std::int64_t rows, std::int64_t vocab, DType dtype) {
  LogpCase c;
  c.rows = rows;
  c.vocab = c.columns = vocab;
  c.logits = Values(dtype, rows * vocab);
  c.targets.assign(static_cast<std::size_t>(rows), 0);
  return c;
}

void set_element(Values& values, std::int64_t index, double value) {
  switch (values.dtype) {
    case DType::kFloat32: values.as<float>()[index] = static_cast<float>(value); break;
    case DType::kFloat64: values.as<double>()[index] = value; break;
    case DType::kFloat16: values.as<order::Float16>()[index] = order::round_to<order::Float16>(value); break;
    case DType::kBFloat16:
      values.as<order::BFloat16>()[index] = order::round_to<order::BFloat16>(value);
      break;
    case DType::kInt32: values.as<std::int32_t>()[index] = static_cast<std::int32_t>(value); break;
    case DType::kInt64: values.as<std::int64_t>()[index] = static_cast<std::int64_t>(value); break;
  }
}

Values take(const Values& values, std::int64_t per_row, const std::vector<std::int64_t>& picked) {
  if (values.bytes.empty()) return values;
  const std::int64_t row_bytes = per_row * dtype_size(values.dtype);
  Values taken(values.dtype, static_cast<std::int64_t>(picked.size()) * per_row);
  for (std::size_t i = 0; i < picked.size(); ++i)
    std::memcpy(taken.bytes.data() + static_cast<std::int64_t>(i) * row_bytes,
                values.bytes.data() + picked[i] * row_bytes, static_cast<std::size_t>(row_bytes));
  return taken;
}

LogpCase take_rows(const LogpCase& c, const std::vector<std::int64_t>& picked) {
  LogpCase part = c;
  part.rows = static_cast<std::int64_t>(picked.size());
  part.logits = take(c.logits, c.columns, picked);
  part.row_temperature = take(c.row_temperature, 1, picked);
  part.grad_logp = take(c.grad_logp, 1, picked);
  part.grad_lse = take(c.grad_lse, 1, picked);
  part.grad_entropy = take(c.grad_entropy, 1, picked);
  part.targets.clear();
  for (const std::int64_t row : picked) part.targets.push_back(c.targets[static_cast<std::size_t>(row)]);
  if (c.selected) {
    part.selected.emplace();
    for (std::size_t i = 0; i < picked.size(); ++i)
      for (const std::int64_t row : *c.selected)
        if (row == picked[i]) part.selected->push_back(static_cast<std::int64_t>(i));
  }
  return part;
}

LogpResult twin(const LogpCase& c) {
  LogpResult result(c);
  core::LogpProblem problem;
  problem.rows = c.rows;
  problem.vocab = c.vocab;
  problem.columns = c.columns;
  problem.dtype = c.logits.dtype;
  problem.binary64 = c.binary64();
  problem.logits = input(c.logits, c.rows, c.columns);
  Values ids(DType::kInt64, c.rows);
  std::copy(c.targets.begin(), c.targets.end(), ids.as<std::int64_t>());
  problem.targets = input(ids, c.rows);
  problem.row_temperature = input(c.row_temperature, c.rows);
  problem.temperature = c.temperature;
  std::vector<std::uint64_t> selected(static_cast<std::size_t>(c.rows / 64 + 1));
  if (c.selected) {
    for (const std::int64_t row : *c.selected)
      if (row >= 0 && row < c.rows) selected[static_cast<std::size_t>(row / 64)] |= 1ull << (row % 64);
    problem.selected = selected.data();
  }
  problem.keep_unselected = c.keep_unselected;
  problem.has_ignore_index = c.ignore_index.has_value();
  problem.ignore_index = c.ignore_index.value_or(0);
  problem.nan_on_invalid = c.on_invalid == OnInvalid::kNan;

  problem.logp = output(result.logp, c.rows);
  problem.lse = output(result.lse, c.rows);
  problem.entropy = output(result.entropy, c.rows);
  problem.row_max = result.row_max.bytes.data();
  problem.row_sum = result.row_sum.bytes.data();
  problem.row_entropy_sum = result.row_entropy_sum.bytes.data();
  ref::logp_forward(problem);

  problem.saved_max = problem.row_max;
  problem.saved_sum = problem.row_sum;
  problem.saved_entropy_sum = problem.row_entropy_sum;
  problem.grad_logp = input(c.grad_logp, c.rows);
  problem.grad_lse = input(c.grad_lse, c.rows);
  problem.grad_entropy = input(c.grad_entropy, c.rows);
  problem.grad_logits = output(result.grad, c.rows, c.columns);
  ref::logp_backward(problem);

  problem.probabilities = output(result.probabilities, c.rows, c.columns);
  ref::probability(problem);
  return result;
}

::testing::AssertionResult same_result(const LogpResult& expected, const LogpResult& actual, Finite finite) {
  const struct {
    const char* name;
    const Values &expected, &actual;
  } fields[] = {{"logp", expected.logp, actual.logp},
                {"lse", expected.lse, actual.lse},
                {"entropy", expected.entropy, actual.entropy},
                {"row_max", expected.row_max, actual.row_max},
                {"row_sum", expected.row_sum, actual.row_sum},
                {"row_entropy_sum", expected.row_entropy_sum, actual.row_entropy_sum},
                {"grad_logits", expected.grad, actual.grad},
                {"probabilities", expected.probabilities, actual.probabilities}};
  for (const auto& field : fields) {
    const bool is_logp = field.name == fields[0].name;
    const auto same = same_bits(field.expected, field.actual, is_logp ? finite : Finite::kPerhapsNone);
    if (!same) return ::testing::AssertionFailure() << field.name << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace samebits::test
