#include "cli/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/cli_error.h"
#include "cli/interrupt.h"

namespace samebits::cli {
namespace {

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

bool write_all(int fd, const std::string& contents) {
  std::size_t done = 0;
  while (done < contents.size()) {
    const ssize_t written = ::write(fd, contents.data() + done, contents.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

void replace_file(const std::string& path, const std::string& contents) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::string temporary = folder_of(path) + "/." + name.substr(0, 200) + ".XXXXXX.tmp";
  const auto fail = [&](const char* action) {
    throw CliError(shown(path) + ": " + action + ": " + std::strerror(errno));
  };
  const int fd = ::mkostemps(temporary.data(), 4, O_CLOEXEC);
  if (fd < 0) fail("cannot be written");
  set_temporary_file(temporary);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(fd, 0666 & ~mask);
  const bool written = write_all(fd, contents) && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    set_temporary_file({});
    errno = reason;
    fail("cannot be written");
  }
  set_temporary_file({});
}

void sync_folder_of(const std::string& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace samebits::cli
