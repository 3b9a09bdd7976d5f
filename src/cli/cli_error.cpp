#include "cli/cli_error.h"

namespace samebits::cli {

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\') {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += c;
    }
  }
  if (text.size() > kLongest) out += "...";
  return out + "'";
}

}  // namespace samebits::cli
