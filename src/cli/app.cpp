#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/interrupt.h"

#include <samebits/plan.h>

namespace samebits::cli {
namespace {

// Errors are one line whatever a message carries.
int report(std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fflush(stdout);
  std::fprintf(stderr, "samebits: error: %s\n", message.c_str());
  return kBadInput;
}

}  // namespace

int run(int argc, char** argv) {
  install_signal_handlers();
  CLI::App app{"Log-probabilities with the same bits everywhere.", "samebits"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(version()));
  app.footer("samebits COMMAND --help explains a command and shows examples.");
  int status = kSame;
  add_info(app, status);
  add_logp(app, status);
  add_audit(app, status);
  add_selftest(app, status);
  add_bench(app, status);
  // The parser would only say that a command is required.
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const auto is_asked_for = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(commands, is_asked_for)) {
    return report("COMMAND: was " + shown(argv[1]) + "; it may be info, logp, audit, selftest or bench");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    return report(std::string(error.what()) + " (samebits --help shows the usage)");
  } catch (const std::bad_alloc&) {
    return report("out of memory");
  } catch (const std::exception& error) {
    return report(error.what());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return report("standard output cannot be written");
  return status;
}

}  // namespace samebits::cli
