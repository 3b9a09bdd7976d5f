#include "cli/safetensors_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/atomic_file.h"
#include "cli/cli_error.h"
#include "cli/interrupt.h"

namespace samebits::cli {
namespace {

// The target of a chain of symbolic links, so that --force replaces the file and not the link.
std::string resolve(const std::string& path) {
  std::error_code error;
  const auto resolved = std::filesystem::canonical(path, error);
  return error ? path : resolved.string();
}

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, bool force, std::vector<OutputTensor> tensors,
                                     const Metadata& metadata)
    : shown_path_(std::move(path)), path_(resolve(shown_path_)), force_(force), tensors_(std::move(tensors)) {
  offsets_.push_back(0);
  for (const OutputTensor& tensor : tensors_) {
    const auto elements = element_count(tensor.shape);
    const auto size = elements ? byte_count(tensor.type, *elements) : std::nullopt;
    if (!size) throw CliError(shown(shown_path_) + ": the output would be too large");
    offsets_.push_back(offsets_.back() + *size);
  }
  const std::string text = header(metadata);
  header_bytes_ = text.size();
  create_temporary();
  try {
    const auto total = static_cast<off_t>(8 + header_bytes_ + offsets_.back());
    const int error = ::posix_fallocate(fd_, 0, total);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
      errno = error;
      fail("cannot claim " + std::to_string(total) + " bytes");
    }
  } catch (...) {
    ::close(fd_);
    ::unlink(temporary_.c_str());
    throw;
  }
}

void SafetensorsWriter::create_temporary() {
  struct stat info{};
  mode_t mode = 0;
  if (::stat(path_.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) throw CliError(shown(shown_path_) + ": exists and is not a regular file");
    if (!force_) throw CliError(shown(shown_path_) + ": exists; give --force to replace it");
    mode = info.st_mode & 07777;
  } else {
    if (errno != ENOENT) fail("cannot be examined");
    const mode_t mask = ::umask(0);
    ::umask(mask);
    mode = 0666 & ~mask;
  }
  const std::string file = std::filesystem::path(path_).filename().string();
  if (file.empty()) throw CliError(shown(shown_path_) + ": names a folder, not a file");
  // The name is cut so that a long one plus the suffix stays within what a folder accepts.
  temporary_ = folder_of(path_) + "/." + file.substr(0, 200) + ".XXXXXX.tmp";
  fd_ = ::mkostemps(temporary_.data(), 4, O_CLOEXEC);
  if (fd_ < 0) fail("cannot be created");
  set_temporary_file(temporary_);
  ::fchmod(fd_, mode);
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  set_temporary_file({});
}

void SafetensorsWriter::write(std::size_t tensor, std::uint64_t offset_bytes,
                              std::span<const std::byte> bytes) {
  write_at(8 + header_bytes_ + offsets_[tensor] + offset_bytes, bytes);
}

void SafetensorsWriter::commit(const Metadata& metadata) {
  std::string text = header(metadata);
  if (text.size() > header_bytes_)
    throw CliError(shown(shown_path_) + ": the metadata grew while it was written");
  text.resize(header_bytes_, ' ');
  std::array<std::byte, 8> length;
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(header_bytes_ >> (8 * i));
  write_at(0, length);
  write_at(8, bytes_of(text));
  if (::fsync(fd_) != 0) fail("cannot be made durable");
  if (force_) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be given its name");
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST)
      throw CliError(shown(shown_path_) + ": appeared meanwhile; give --force to replace it");
    // A file system without that flag: a hard link fails just as surely when the name is taken.
    if (::link(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be given its name");
    ::unlink(temporary_.c_str());
  }
  set_temporary_file({});
  ::close(std::exchange(fd_, -1));
  sync_folder_of(path_);
}

void SafetensorsWriter::write_at(std::uint64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    position += static_cast<std::uint64_t>(written);
  }
}

std::string SafetensorsWriter::header(const Metadata& metadata) const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["__metadata__"] = metadata;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    json[tensors_[i].name] = {{"dtype", element_type_name(tensors_[i].type)},
                              {"shape", tensors_[i].shape},
                              {"data_offsets", {offsets_[i], offsets_[i + 1]}}};
  }
  std::string text = json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the format asks that the data begin 8-byte aligned
  return text;
}

void SafetensorsWriter::fail(const std::string& action) const {
  throw CliError(shown(shown_path_) + ": " + action + ": " + std::strerror(errno));
}

}  // namespace samebits::cli
