// Files written by hand for the tests of the readers: nothing here is shared with the code under test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>

#include "cli/cli_error.h"

namespace samebits::cli {

inline std::span<const std::byte> as_file(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

/// A safetensors file: length, header, `data_bytes` bytes of 0x5a.
inline std::string safetensors(const std::string& header, std::size_t data_bytes) {
  return little_endian(header.size(), 8) + header + std::string(data_bytes, '\x5a');
}

/// An npy file of that version: the dictionary as given, `data_bytes` bytes of 0x5a.
inline std::string npy(const std::string& dictionary, std::size_t data_bytes, int major = 1) {
  return std::string("\x93NUMPY") + static_cast<char>(major) + '\0' +
         little_endian(dictionary.size(), major == 1 ? 2 : 4) + dictionary + std::string(data_bytes, '\x5a');
}

/// The message of the CliError that `action` throws; "" when it throws none.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const CliError& error) {
    return error.what();
  }
  return {};
}

inline void expect_refusal(const std::function<void()>& action, const std::string& part) {
  const std::string message = refusal(action);
  EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\", got \"" << message << '"';
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

/// A folder of its own for a test, removed afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "samebits-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_all(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

}  // namespace samebits::cli
