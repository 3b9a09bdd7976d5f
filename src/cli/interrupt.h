// What a signal must clean up: the one temporary file of the command.
#pragma once

#include <string>

namespace samebits::cli {

/// SIGINT, SIGTERM and SIGHUP remove the temporary file and then end the process as they would have; SIGBUS (an input
/// that shrank while it was mapped) does so with an error line and status 2; a file size limit becomes a write error.
void install_signal_handlers();

/// The file to remove when a signal comes, from now on. An empty path means none.
void set_temporary_file(const std::string& path);

/// What a caught SIGINT, SIGTERM or SIGHUP writes to stderr before the process ends, from now on: one line, at most 1000
/// bytes of it. Empty: nothing.
void set_parting_words(const std::string& line);

}  // namespace samebits::cli
