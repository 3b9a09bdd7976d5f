// Snippets of docs/operators/linear_logp.md and docs/operators/plan.md: a head's log-probabilities and gradients.
#include <cstdio>
#include <vector>

#include <samebits/samebits.h>

using namespace samebits;

int main() {
  const std::int64_t tokens = 3, vocab = 300, size = 8;
  std::vector<float> hidden(tokens * size), weight(vocab * size);
  for (std::int64_t i = 0; i < tokens * size; ++i) hidden[i] = 0.25f * static_cast<float>(i % 7 - 3);
  for (std::int64_t i = 0; i < vocab * size; ++i) weight[i] = 0.125f * static_cast<float>(i % 11 - 5);
  const std::vector<std::int64_t> targets = {0, 299, -100};  // the last position is padding

  // --8<-- [start:head]
  const ConstTensorView hidden_view(hidden.data(), DType::kFloat32, {tokens, size});
  const ConstTensorView weight_view(weight.data(), DType::kFloat32, {vocab, size});
  const ConstTensorView target_view(targets.data(), DType::kInt64, {tokens});

  std::vector<float> logp(tokens), row_max(tokens);
  std::vector<std::int64_t> row_sum(tokens);
  LogpOutputs outputs;
  outputs.logp = {logp.data(), DType::kFloat32, {tokens}};
  outputs.row_max = {row_max.data(), DType::kFloat32, {tokens}};  // saved for backward
  outputs.row_sum = {row_sum.data(), DType::kInt64, {tokens}};
  linear_logp_forward(hidden_view, weight_view, target_view, {}, {}, outputs);

  const std::vector<float> upstream(tokens, 1.0f);
  std::vector<float> grad_hidden(tokens * size), grad_weight(vocab * size);
  LinearLogpGradients gradients;
  gradients.hidden = {grad_hidden.data(), DType::kFloat32, {tokens, size}};
  gradients.weight = {grad_weight.data(), DType::kFloat32, {vocab, size}};
  LogpUpstream from_above;
  from_above.logp = {upstream.data(), DType::kFloat32, {tokens}};
  linear_logp_backward(hidden_view, weight_view, target_view, {}, {}, {outputs.row_max, outputs.row_sum, {}},
                       from_above, gradients);
  // --8<-- [end:head]

  // --8<-- [start:plan]
  PlanRequest request;
  request.op = "linear_logp";
  request.dtype = DType::kBFloat16;
  const Plan answer = plan(request);
  std::printf("%s, %s, by %s\n", answer.contract.c_str(), answer.level.c_str(), answer.backend.c_str());
  for (const std::string& reason : answer.refusals) std::printf("refused: %s\n", reason.c_str());
  // --8<-- [end:plan]

  // --8<-- [start:context]
  ExecContext context;  // nothing in it can change a bit
  context.threads = 2;
  context.backend = "scalar";
  std::vector<float> again(tokens);
  LogpOutputs second;
  second.logp = {again.data(), DType::kFloat32, {tokens}};
  linear_logp_forward(hidden_view, weight_view, target_view, {}, {}, second, {}, context);
  // --8<-- [end:context]

  std::printf("%a %a %a\n", logp[0], logp[1], logp[2]);
  const bool padding = logp[2] == 0.0f && grad_hidden[2 * size] == 0.0f;
  return again == logp && padding && answer.refusals.empty() && answer.contract == "tc16.v1+row.v1" ? 0 : 1;
}
