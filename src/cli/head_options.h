// The options by which `logp` and `audit` take an LM head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/common_options.h"
#include "cli/head.h"
#include "cli/logp_job.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace samebits::cli {

struct HeadOptions {
  std::vector<std::string> weights;
  std::string bias, logits_name = "logits", hidden_name = "hidden";

  /// --weight, --bias, --hidden, --logits; returns --weight.
  CLI::Option* add_to(CLI::App& command);
  /// The head, or nothing without --weight.
  std::unique_ptr<Head> open() const;
  /// Name of the tensor that holds the rows, and the option it comes from.
  const std::string& source_name() const { return weights.empty() ? logits_name : hidden_name; }
  std::string source_option() const { return weights.empty() ? "--logits" : "--hidden"; }
};

/// Gives the job its head, if there is one, and the size of its calls.
void set_head(LogpInputs& inputs, const Head* head, bool twin);

/// Who computes the rows of `job`: the library under these options, or the scalar twin.
ForwardFunction job_forward(const LogpJob& job, const RunOptions& run, bool twin);

}  // namespace samebits::cli
