// Writes tests/golden/head.json from the scalar twin, which the accuracy tests hold to binary64.
//
//     record_head_golden > tests/golden/head.json
//
// The recording changes only with a contract version or a new case; CHANGELOG.md says so either way.
#include <cstdio>

#include "head_golden.h"

int main() {
  using namespace samebits::test;
  nlohmann::ordered_json file;
  file["generator"] = "tools/record_head_golden.cpp; inputs: tests/cpp/head_golden.cpp";
  for (const HeadGolden& golden : head_golden_cases())
    file["cases"].push_back(golden_record(golden, twin_gradients(golden.head)));
  std::printf("%s\n", file.dump(1).c_str());
}
