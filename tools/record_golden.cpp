// Writes tests/golden/row.json from the scalar twin, after checking every finite row against the binary128 oracle.
//
//     record_golden > tests/golden/row.json
//
// The recording changes only with a contract version or a new case; CHANGELOG.md says so either way.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "golden.h"
#include "ref/logp.h"
#include "ref/oracle.h"
#include "row_sum_case.h"

namespace {

using namespace samebits;
using namespace samebits::test;

void check(bool good, const GoldenCase& golden, std::int64_t row, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s, row %lld: %s is not what the oracle says; nothing was recorded\n",
               golden.name.c_str(), static_cast<long long>(row), what);
  std::exit(1);
}

// The oracle sees the scaled logits; the bounds are those of the accuracy tests for the worst rows.
void check_row(const GoldenCase& golden, const LogpResult& result, std::int64_t row) {
  const LogpCase& c = golden.logp_case;
  const std::int64_t target = c.targets[static_cast<std::size_t>(row)];
  if (target < 0 || target >= c.vocab) return;
  const bool wide = c.binary64();
  const double it = wide ? 1 / c.temperature : double(1 / static_cast<float>(c.temperature));
  std::vector<ref::Quad> z;
  bool any_finite = false;
  for (std::int64_t i = 0; i < c.vocab; ++i) {
    const double x = element_value(c.logits, row * c.columns + i);
    const double scaled = wide ? x * it : double(static_cast<float>(x) * static_cast<float>(it));
    if (std::isnan(scaled) || scaled == std::numeric_limits<double>::infinity()) return;
    any_finite = any_finite || std::isfinite(scaled);
    z.push_back(scaled);
  }
  if (!any_finite) return;
  const ref::OracleRow oracle(z, {});
  const double scale = wide ? 0x1p-29 : 1, ulp = wide ? 0x1p-52 : 0x1p-23;
  const auto near = [&](const Values& values, ref::Quad exact, double bound) {
    const double value = element_value(values, row);
    if (std::isinf(value)) return std::isinf(double(exact));
    return std::abs(double(ref::Quad(value) - exact)) <=
           bound * scale + ulp * (std::abs(value) + double(oracle.log_sum()) + 1);
  };
  check(near(result.logp, oracle.logp(target), 2e-6), golden, row, "logp");
  check(near(result.lse, oracle.lse(), 2e-6), golden, row, "lse");
  check(near(result.entropy, oracle.entropy(), 8e-6), golden, row, "entropy");
  const double g = element_value(c.grad_logp, row), h = element_value(c.grad_lse, row);
  const double e = element_value(c.grad_entropy, row);
  const double storage = c.logits.dtype == DType::kBFloat16  ? 0x1p-8
                         : c.logits.dtype == DType::kFloat16 ? 0x1p-11
                                                             : 0;
  for (std::int64_t i = 0; i < c.vocab; ++i) {
    const double exact = double(oracle.dz(i, target, g, h, e)) * it;
    const double error = std::abs(element_value(result.grad, row * c.columns + i) - exact);
    const double terms = std::abs(g) + std::abs(h) + 110 * std::abs(e);
    check(error <= storage * std::abs(exact) + scale * 1e-5 * terms + 0x1p-24 * (storage > 0), golden, row,
          "dx");
  }
}

}  // namespace

int main() {
  nlohmann::ordered_json file;
  file["generator"] = "tools/record_golden.cpp; inputs: tests/cpp/golden.cpp";
  for (const GoldenCase& golden : golden_cases()) {
    const LogpResult result = twin(golden.logp_case);
    for (std::int64_t row = 0; row < golden.logp_case.rows; ++row) check_row(golden, result, row);
    file["cases"].push_back(golden_record(golden, result));
  }
  for (const RowSumGolden& golden : row_sum_golden_cases())
    file["row_sums"].push_back(golden_record(golden, row_sum_twin(golden.values, 1)));
  std::printf("%s\n", file.dump(1).c_str());
}
