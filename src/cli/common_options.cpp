#include "cli/common_options.h"

#include <CLI/CLI.hpp>

namespace samebits::cli {

void RunOptions::add_to(CLI::App& command) {
  command
      .add_option("--backend", backend, "force a backend by name (see samebits info); never changes a bit")
      ->capture_default_str();
  command.add_option("--threads", threads, "threads at work, 0 for all of the machine; never changes a bit")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  auto* progress =
      command.add_flag("--progress", always_progress, "show progress even when stderr is no terminal");
  command.add_flag("-q,--quiet", quiet, "show no progress and no summary")->excludes(progress);
}

ProgressMode RunOptions::progress() const {
  return quiet ? ProgressMode::kNever : always_progress ? ProgressMode::kAlways : ProgressMode::kAuto;
}

ExecContext RunOptions::context() const {
  ExecContext context;
  context.backend = backend;
  context.threads = threads;
  return context;
}

ForwardFunction library_forward(const RunOptions& options) {
  return [options](const ConstTensorView& logits, const ConstTensorView& targets, const LogpOptions& meaning,
                   const LogpOutputs& outputs) {
    logp_forward(logits, targets, meaning, outputs, options.context());
  };
}

}  // namespace samebits::cli
