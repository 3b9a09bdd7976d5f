// The bits recorded in tests/golden/head.json: gradients of linear_logp under every contract.
#include <gtest/gtest.h>

#include <fstream>

#include "head_golden.h"
#include "run_case.h"

namespace samebits::test {
namespace {

TEST(LinearLogpGolden, the_twin_and_every_backend_give_the_recorded_gradients) {
  std::ifstream stream(std::string(SAMEBITS_TEST_DATA) + "/golden/head.json");
  const auto file = nlohmann::ordered_json::parse(stream);
  const std::vector<HeadGolden> cases = head_golden_cases();
  ASSERT_EQ(file["cases"].size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(file["cases"][i], golden_record(cases[i], twin_gradients(cases[i].head)));
    for (const std::string& backend : available_backends())
      EXPECT_EQ(file["cases"][i], golden_record(cases[i], head_gradients(cases[i].head, backend, 2)))
          << backend;
  }
}

}  // namespace
}  // namespace samebits::test
