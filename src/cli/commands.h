// The subcommands: each adds itself to the parser and, when it was the one asked for, sets the exit status.
#pragma once

namespace CLI {
class App;
}

namespace samebits::cli {

void add_info(CLI::App& app, int& status);
void add_logp(CLI::App& app, int& status);
void add_audit(CLI::App& app, int& status);
void add_selftest(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);

}  // namespace samebits::cli
