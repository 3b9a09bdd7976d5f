// Writing of a safetensors file that exists under its name either whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cli/file_tensor.h"

namespace samebits::cli {

struct OutputTensor {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
};

/// Writes to a temporary file beside `path`; commit() makes it durable and renames it. Until then, and after an
/// exception or a caught signal, `path` is untouched and the temporary file is removed.
class SafetensorsWriter {
 public:
  using Metadata = std::map<std::string, std::string>;

  /// Throws CliError when `path` exists and `force` is not set, exists and is no regular file, or cannot be created.
  /// Space for all of it is claimed here. `metadata` may be replaced at commit() by one that is no longer.
  SafetensorsWriter(std::string path, bool force, std::vector<OutputTensor> tensors,
                    const Metadata& metadata);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Bytes of one tensor from `offset_bytes` on.
  void write(std::size_t tensor, std::uint64_t offset_bytes, std::span<const std::byte> bytes);

  void commit(const Metadata& metadata);

 private:
  void create_temporary();
  void write_at(std::uint64_t position, std::span<const std::byte> bytes);
  std::string header(const Metadata& metadata) const;
  [[noreturn]] void fail(const std::string& action) const;

  std::string shown_path_, path_, temporary_;  // as given, symbolic links resolved, the file being written
  bool force_;
  std::vector<OutputTensor> tensors_;
  std::vector<std::uint64_t> offsets_;  // of each tensor from the start of the data; one more for the end
  std::uint64_t header_bytes_ = 0;
  int fd_ = -1;
};

}  // namespace samebits::cli
