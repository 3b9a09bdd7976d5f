// What is fuzzed: a reader is given bytes, and whatever it accepts must be coherent. Anything it refuses must be refused
// by CliError, in one line; any other exception, a crash or a sanitizer report is a finding.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "cli/cli_error.h"
#include "cli/logp_settings.h"
#include "cli/npy.h"
#include "cli/safetensors.h"

namespace samebits::cli {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// Inside the file, of the size its shape says, and readable to the last byte.
inline void require_coherent(const FileTensor& tensor, std::span<const std::byte> file) {
  const auto elements = element_count(tensor.shape);
  require(elements && *elements == tensor.elements && tensor.shape.size() <= kMaxFileRank);
  const auto size = byte_count(tensor.type, tensor.elements);
  require(size && *size == tensor.data.size());
  if (tensor.data.empty()) return;
  require(tensor.data.data() >= file.data() &&
          tensor.data.data() + tensor.data.size() <= file.data() + file.size());
  const volatile std::byte first = tensor.data.front(), last = tensor.data.back();
  static_cast<void>(first == last);
}

inline void require_one_line(const CliError& error) {
  const std::string message = error.what();
  require(!message.empty() && message.size() < 4096);
  for (const char c : message) require(c >= 0x20 && c < 0x7f);
}

inline void fuzz_npy(std::span<const std::byte> file) {
  try {
    require_coherent(read_npy(file, "fuzz"), file);
  } catch (const CliError& error) {
    require_one_line(error);
  }
}

inline void fuzz_safetensors(std::span<const std::byte> file) {
  try {
    const SafetensorsFile contents = read_safetensors(file, "fuzz");
    std::size_t total = 0;
    for (const FileTensor& tensor : contents.tensors) {
      require_coherent(tensor, file);
      require(contents.find(tensor.name) == &tensor);
      total += tensor.data.size();
    }
    require(total <= file.size());
    for (const auto& [key, value] : contents.metadata) {
      if (key == "samebits.logits") {
        require(recorded_tensor(value, "fuzz").shape.size() <= kMaxFileRank);
      } else {
        meaning_from_provenance(value, "fuzz");
      }
    }
  } catch (const CliError& error) {
    require_one_line(error);
  }
}

}  // namespace samebits::cli
