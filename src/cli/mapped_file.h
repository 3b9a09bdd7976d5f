// A regular file mapped read-only for its whole length.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace samebits::cli {

class MappedFile {
 public:
  /// Throws CliError naming the path when it cannot be opened, is no regular file, or cannot be mapped.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// True when `path` names this very file (same device and inode), by whatever name.
  bool is_same_file(const std::string& path) const;

  /// Nanoseconds since 1970 of the last change of the contents, when the file was opened.
  std::int64_t modified_ns() const { return modified_ns_; }

  /// Tells the system that the file is read more than once, so that it keeps what it has read.
  void keep() const;

  /// Lets the kernel drop the pages that lie wholly inside [begin, end): they have been read for the last time.
  void forget(std::size_t begin, std::size_t end) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t modified_ns_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace samebits::cli
