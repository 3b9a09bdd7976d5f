#include "cli/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/cli_error.h"

namespace samebits::cli {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw CliError(shown(path) + ": " + what);
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // Not blocking, so that a pipe without a writer is refused instead of waited for.
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(path_, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info{};
  if (::fstat(file.fd, &info) != 0) fail(path_, std::string("cannot be examined: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail(path_, "is not a regular file");
  device_ = info.st_dev;
  inode_ = info.st_ino;
  size_ = static_cast<std::size_t>(info.st_size);
  modified_ns_ = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (size_ == 0) return;
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapping == MAP_FAILED) fail(path_, std::string("cannot be mapped: ") + std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapping);
  ::madvise(mapping, size_, MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

bool MappedFile::is_same_file(const std::string& path) const {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

void MappedFile::keep() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_NORMAL);
}

void MappedFile::forget(std::size_t begin, std::size_t end) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = (begin + page - 1) / page * page;
  const std::size_t last = end / page * page;
  if (first < last && last <= size_) {
    ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
  }
}

}  // namespace samebits::cli
