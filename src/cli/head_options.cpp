#include "cli/head_options.h"

#include <CLI/CLI.hpp>

#include "cli/head_forward.h"
#include "cli/twin.h"

namespace samebits::cli {

CLI::Option* HeadOptions::add_to(CLI::App& command) {
  CLI::Option* weight = command.add_option(
      "--weight", weights,
      "LM head [vocabulary, hidden size]: FILE, FOLDER or INDEX.json, then ::NAME unless it is "
      "lm_head.weight; again for each further part of its rows");
  weight->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--bias", bias, "bias [vocabulary] of the head, named likewise (lm_head.bias)")
      ->needs(weight);
  command.add_option("--logits", logits_name, "name of the logits tensor")
      ->capture_default_str()
      ->excludes(weight);
  command.add_option("--hidden", hidden_name, "name of the tensor of hidden states")
      ->capture_default_str()
      ->needs(weight);
  return weight;
}

std::unique_ptr<Head> HeadOptions::open() const {
  return weights.empty() ? nullptr : std::make_unique<Head>(weights, bias);
}

void set_head(LogpInputs& inputs, const Head* head, bool twin) {
  inputs.head = head;
  if (head != nullptr) inputs.most_rows = most_rows_of_call(*head, twin);
}

ForwardFunction job_forward(const LogpJob& job, const RunOptions& run, bool twin) {
  const Head* head = job.inputs().head;
  if (head == nullptr) return twin ? ForwardFunction(twin_forward) : library_forward(run);
  return head_forward(*head, job.plan().contract.starts_with("tc16") ? "tc16" : "fma", run, twin);
}

}  // namespace samebits::cli
