// The one error the command raises itself: its text becomes `samebits: error: TEXT`, exit status 2.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace samebits::cli {

class CliError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `text` with control characters, quotes and non-ASCII bytes escaped and the length bounded, in single quotes:
/// names come from files that nobody vouches for, and an error stays one line that cannot steer a terminal.
std::string shown(std::string_view text);

}  // namespace samebits::cli
