#include <cstdio>
#include <vector>

#include <samebits/samebits.h>

int main() {
  const std::int64_t rows = 2, vocab = 5;
  const std::vector<float> logits = {2.0f, 1.0f, 0.0f, -1.0f, 0.5f, 0.1f, -0.2f, 1.7f, 0.3f, 1.2f};
  const std::vector<std::int64_t> targets = {0, 4};
  std::vector<float> logp(rows);

  samebits::LogpOutputs outputs;
  outputs.logp = {logp.data(), samebits::DType::kFloat32, {rows}};
  samebits::logp_forward({logits.data(), samebits::DType::kFloat32, {rows, vocab}},
                         {targets.data(), samebits::DType::kInt64, {rows}}, {}, outputs);

  for (const float value : logp) std::printf("%.9g = %a\n", value, value);
}
