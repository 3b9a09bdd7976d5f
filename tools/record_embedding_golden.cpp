// Writes tests/golden/embedding.json from the scalar twin, which the accuracy tests hold to binary128.
//
//     record_embedding_golden > tests/golden/embedding.json
//
// The recording changes only with a contract version or a new case; CHANGELOG.md says so either way.
#include <cstdio>

#include "embedding_golden.h"

int main() {
  using namespace samebits::test;
  nlohmann::ordered_json file;
  file["generator"] = "tools/record_embedding_golden.cpp; inputs: tests/cpp/embedding_golden.cpp";
  for (const EmbeddingGolden& golden : embedding_golden_cases())
    file["cases"].push_back(golden_record(golden, embedding_twin(golden.embedding)));
  std::printf("%s\n", file.dump(1).c_str());
}
