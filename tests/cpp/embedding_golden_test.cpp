// The bits recorded in tests/golden/embedding.json.
#include <gtest/gtest.h>

#include <fstream>

#include "embedding_golden.h"
#include "run_case.h"

namespace samebits::test {
namespace {

TEST(EmbeddingGolden, the_twin_and_every_backend_give_the_recorded_bits) {
  std::ifstream stream(std::string(SAMEBITS_TEST_DATA) + "/golden/embedding.json");
  const auto file = nlohmann::ordered_json::parse(stream);
  const std::vector<EmbeddingGolden> cases = embedding_golden_cases();
  ASSERT_EQ(file["cases"].size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(file["cases"][i], golden_record(cases[i], embedding_twin(cases[i].embedding)));
    for (const std::string& backend : available_backends()) {
      ExecContext context;
      context.backend = backend;
      context.threads = 2;
      EXPECT_EQ(file["cases"][i], golden_record(cases[i], embedding_call(cases[i].embedding, {}, context)))
          << backend;
    }
  }
}

}  // namespace
}  // namespace samebits::test
