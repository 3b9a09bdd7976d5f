// The bits recorded in tests/golden/row.json: the promise that a release keeps. A difference here is a new contract
// version, not a new recording.
#include <gtest/gtest.h>

#include <fstream>

#include "golden.h"
#include "row_sum_case.h"
#include "run_case.h"

namespace samebits::test {
namespace {

nlohmann::ordered_json recorded() {
  std::ifstream file(std::string(SAMEBITS_TEST_DATA) + "/golden/row.json");
  return nlohmann::ordered_json::parse(file);
}

void expect_recorded(const nlohmann::ordered_json& record, const GoldenCase& golden,
                     const LogpResult& result) {
  const nlohmann::ordered_json now = golden_record(golden, result);
  ASSERT_EQ(record.size(), now.size()) << golden.name;
  for (const auto& [field, value] : now.items())
    EXPECT_EQ(record[field], value) << golden.contract() << " " << golden.name << " " << field;
}

TEST(LogpGolden, the_twin_gives_the_recorded_bits) {
  const nlohmann::ordered_json file = recorded();
  const std::vector<GoldenCase> cases = golden_cases();
  ASSERT_EQ(file["cases"].size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i)
    expect_recorded(file["cases"][i], cases[i], twin(cases[i].logp_case));
}

TEST(LogpGolden, every_backend_gives_the_recorded_bits) {
  const nlohmann::ordered_json file = recorded();
  const std::vector<GoldenCase> cases = golden_cases();
  ASSERT_EQ(file["cases"].size(), cases.size());
  for (const std::string& backend : available_backends()) {
    SCOPED_TRACE(backend);
    ExecContext context;
    context.backend = backend;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Layout layout;
      // The second call reads, backward, what the first one saved.
      const LogpResult forward = run_case(cases[i].logp_case, twin(cases[i].logp_case), layout, context);
      expect_recorded(file["cases"][i], cases[i], run_case(cases[i].logp_case, forward, layout, context));
    }
  }
}

TEST(RowSumGolden, the_twin_and_every_backend_give_the_recorded_bits) {
  const nlohmann::ordered_json file = recorded();
  const std::vector<RowSumGolden> cases = row_sum_golden_cases();
  ASSERT_EQ(file["row_sums"].size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Values& values = cases[i].values;
    EXPECT_EQ(file["row_sums"][i], golden_record(cases[i], row_sum_twin(values, 1)));
    for (const std::string& backend : available_backends()) {
      ExecContext context;
      context.backend = backend;
      EXPECT_EQ(file["row_sums"][i], golden_record(cases[i], row_sum_call(values, 1, {}, context)))
          << backend;
    }
  }
}

}  // namespace
}  // namespace samebits::test
