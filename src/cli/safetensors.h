// Reading of safetensors files: an 8-byte length, a JSON header of that length, then the tensors' bytes.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/file_tensor.h"

namespace samebits::cli {

struct SafetensorsFile {
  std::vector<FileTensor> tensors;              // in the order of the header
  std::map<std::string, std::string> metadata;  // the "__metadata__" entry

  /// The tensor of that name, or nullptr.
  const FileTensor* find(std::string_view name) const;
};

/// Reads the header and returns tensors whose data points into `bytes`. Throws CliError, naming `path`, unless the
/// header is at most 100 MB and inside the file, is the JSON object the format prescribes (no duplicate key, no other
/// field, no further nesting), and the tensors' ranges agree with their shapes, do not overlap and leave no hole.
SafetensorsFile read_safetensors(std::span<const std::byte> bytes, const std::string& path);

}  // namespace samebits::cli
