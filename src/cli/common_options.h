// Options that several subcommands share.
#pragma once

#include <string>

#include <samebits/context.h>

#include "cli/logp_job.h"
#include "cli/progress.h"

namespace CLI {
class App;
}

namespace samebits::cli {

struct RunOptions {
  std::string backend = "auto";
  int threads = 0;
  bool always_progress = false;
  bool quiet = false;

  /// --backend, --threads, --progress, --quiet
  void add_to(CLI::App& command);
  ProgressMode progress() const;
  ExecContext context() const;  // views `backend`, which must outlive it
};

/// The library's own forward, under these options.
ForwardFunction library_forward(const RunOptions& options);

}  // namespace samebits::cli
