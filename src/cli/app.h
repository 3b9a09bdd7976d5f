// The `samebits` command: one function per subcommand, one place that turns exceptions into an exit status.
#pragma once

namespace CLI {
class App;
}

namespace samebits::cli {

/// Exit statuses of the command.
inline constexpr int kSame = 0;
inline constexpr int kDiffers = 1;   // audit and selftest: a bit differs
inline constexpr int kBadInput = 2;  // usage, or a file or value that cannot be used

/// Runs the command line; returns the exit status and never throws.
int run(int argc, char** argv);

}  // namespace samebits::cli
