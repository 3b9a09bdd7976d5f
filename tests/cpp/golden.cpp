#include "golden.h"

#include <cstdio>
#include <cstring>
#include <limits>

#include "rng.h"

namespace samebits::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string hex(std::uint64_t bits, int bytes) {
  char text[20];
  std::snprintf(text, sizeof text, "%0*llx", 2 * bytes, static_cast<unsigned long long>(bits));
  return text;
}

}  // namespace

std::string hex_element(const Values& values, std::int64_t index) {
  const auto size = static_cast<std::size_t>(dtype_size(values.dtype));
  std::uint64_t bits = 0;
  std::memcpy(&bits, values.bytes.data() + static_cast<std::size_t>(index) * size, size);
  return hex(bits, static_cast<int>(size));
}

std::string digest(const std::byte* bytes, std::int64_t count) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (std::int64_t i = 0; i < count; ++i)
    hash = (hash ^ static_cast<std::uint64_t>(bytes[i])) * 0x100000001b3ull;
  return hex(hash, 8);
}

namespace {

void upstreams(Rng& rng, LogpCase& c) {
  for (Values* upstream : {&c.grad_logp, &c.grad_lse, &c.grad_entropy}) {
    *upstream = Values(c.real(), c.rows);
    for (std::int64_t row = 0; row < c.rows; ++row) set_element(*upstream, row, rng.normal());
  }
}

// One row of each kind: normal, one huge logit, all equal, -inf padding, all -inf, a NaN, a +inf, the target at the
// maximum and at the minimum of a ramp, an id outside the vocabulary.
LogpCase kinds_of_rows(DType dtype, Precision precision) {
  Rng rng(0x901d0 + static_cast<std::uint64_t>(dtype));
  LogpCase c = plain_case(10, 300, dtype);
  c.precision = precision;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t i = 0; i < c.vocab; ++i) {
      double value = rng.normal() * 3;
      if (row == 2) value = 1.5;
      if (row == 3 && i >= 140) value = -kInfinity;
      if (row == 4) value = -kInfinity;
      if (row == 7 || row == 8) value = static_cast<double>(i) / 16;
      set_element(c.logits, row * c.vocab + i, value);
    }
    c.targets[static_cast<std::size_t>(row)] = rng.below(140);
  }
  set_element(c.logits, 1 * c.vocab + 77, 100);
  set_element(c.logits, 5 * c.vocab + 200, std::numeric_limits<double>::quiet_NaN());
  set_element(c.logits, 6 * c.vocab + 299, kInfinity);
  c.targets[7] = 299;
  c.targets[8] = 0;
  c.targets[9] = 300;
  upstreams(rng, c);
  return c;
}

}  // namespace

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  const struct {
    DType dtype;
    Precision precision;
    const char* suffix;
  } kinds[] = {{DType::kFloat32, Precision::kFromLogits, ""},
               {DType::kBFloat16, Precision::kFromLogits, ""},
               {DType::kFloat16, Precision::kFromLogits, ""},
               {DType::kFloat64, Precision::kFromLogits, ""},
               {DType::kBFloat16, Precision::kFloat64, "_in_fp64"}};
  for (const auto& kind : kinds) {
    const std::string dtype = std::string(dtype_name(kind.dtype)) + kind.suffix;
    cases.push_back({"kinds_of_rows_" + dtype, kinds_of_rows(kind.dtype, kind.precision)});

    LogpCase warm = kinds_of_rows(kind.dtype, kind.precision);
    warm.temperature = 0.7;
    warm.vocab = 257;  // the rest is padding
    cases.push_back({"temperature_and_padding_" + dtype, warm});

    for (const std::int64_t vocab : {1, 2, 129, 1000, 131072}) {
      Rng rng(0x901d + static_cast<std::uint64_t>(vocab));
      LogpCase c = plain_case(2, vocab, kind.dtype);
      c.precision = kind.precision;
      for (std::int64_t i = 0; i < c.rows * vocab; ++i) set_element(c.logits, i, rng.normal() * 4);
      for (std::int64_t& target : c.targets) target = rng.below(vocab);
      upstreams(rng, c);
      cases.push_back({"vocab_" + std::to_string(vocab) + "_" + dtype, c});
    }
  }
  return cases;
}

std::vector<RowSumGolden> row_sum_golden_cases() {
  std::vector<RowSumGolden> cases;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64})
    for (const std::int64_t columns : {0, 1, 33, 127, 128, 129, 384, 2049, 131072, 151936}) {
      Rng rng(0x5c3 + static_cast<std::uint64_t>(columns));
      RowSumGolden golden{"columns_" + std::to_string(columns) + "_" + std::string(dtype_name(dtype)),
                          Values(dtype, columns)};
      for (std::int64_t i = 0; i < columns; ++i) set_element(golden.values, i, rng.normal() * 3);
      cases.push_back(golden);
    }
  return cases;
}

nlohmann::ordered_json golden_record(const RowSumGolden& golden, const Values& sum) {
  const bool wide = sum.dtype == DType::kFloat64;
  return {{"contract", wide ? "row64.v1" : "row.v1"}, {"name", golden.name}, {"sum", hex_element(sum, 0)}};
}

nlohmann::ordered_json golden_record(const GoldenCase& golden, const LogpResult& result) {
  nlohmann::ordered_json record;
  record["contract"] = golden.contract();
  record["name"] = golden.name;
  const struct {
    const char* name;
    const Values& values;
  } fields[] = {{"logp", result.logp},       {"lse", result.lse},
                {"entropy", result.entropy}, {"row_max", result.row_max},
                {"row_sum", result.row_sum}, {"row_entropy_sum", result.row_entropy_sum}};
  for (const auto& field : fields) {
    std::string line;
    for (std::int64_t i = 0; i < field.values.count(); ++i)
      line += (i ? " " : "") + hex_element(field.values, i);
    record[field.name] = line;
  }
  const std::int64_t columns = golden.logp_case.columns;
  const std::int64_t row_bytes = columns * dtype_size(result.grad.dtype);
  const std::int64_t p_bytes = columns * dtype_size(result.probabilities.dtype);
  std::string digests, samples, p_digests;
  for (std::int64_t row = 0; row < golden.logp_case.rows; ++row) {
    digests += (row ? " " : "") + digest(result.grad.bytes.data() + row * row_bytes, row_bytes);
    p_digests += (row ? " " : "") + digest(result.probabilities.bytes.data() + row * p_bytes, p_bytes);
    const std::int64_t target = golden.logp_case.targets[static_cast<std::size_t>(row)];
    for (const std::int64_t column : {std::int64_t{0}, columns / 2, columns - 1, target})
      samples += (samples.empty() ? "" : " ") + hex_element(result.grad, row * columns + column % columns);
  }
  record["grad_fnv1a64"] = digests;
  record["grad_first_middle_last_target"] = samples;
  record["probability_fnv1a64"] = p_digests;
  return record;
}

}  // namespace samebits::test
