#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>

#include "cli/cli_error.h"

namespace samebits::cli {
namespace {

// A handler may only touch storage that is always valid, so the path lives in a fixed buffer.
std::array<char, PATH_MAX> temporary_path;
std::atomic<bool> has_temporary{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Two buffers, so that a handler never reads the one being written.
std::array<std::array<char, 1002>, 2> parting_words;
std::atomic<const char*> parting{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free);

void say_parting_words() {
  const char* line = parting.load(std::memory_order_acquire);
  if (line == nullptr) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, std::strlen(line));
}

void remove_temporary() {
  if (has_temporary.load(std::memory_order_acquire)) ::unlink(temporary_path.data());
}

void on_termination(int signal) {
  remove_temporary();
  say_parting_words();
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when the handler returns: the status says which signal it was
}

void on_bus_error(int) {
  // Several threads may read the file that shrank: one of them reports it, the others wait for the end.
  static std::atomic_flag reported = ATOMIC_FLAG_INIT;
  while (reported.test_and_set()) ::pause();
  remove_temporary();
  constexpr char kMessage[] =
      "samebits: error: an input file became shorter or unreadable while it was read\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(2);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void handle_unless_ignored(int signal, void (*handler)(int)) {
  struct sigaction current{};
  ::sigaction(signal, nullptr, &current);
  if (current.sa_handler != SIG_IGN) handle(signal, handler);  // nohup keeps its meaning
}

}  // namespace

void install_signal_handlers() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle_unless_ignored(signal, on_termination);
  handle(SIGBUS, on_bus_error);
  handle(SIGXFSZ, SIG_IGN);
}

void set_temporary_file(const std::string& path) {
  has_temporary.store(false, std::memory_order_release);
  if (path.empty()) return;
  if (path.size() >= temporary_path.size()) throw CliError(shown(path) + ": the path is too long");
  std::memcpy(temporary_path.data(), path.c_str(), path.size() + 1);
  has_temporary.store(true, std::memory_order_release);
}

void set_parting_words(const std::string& line) {
  auto& buffer = parting_words[parting.load() == parting_words[0].data() ? 1 : 0];
  const std::size_t length = std::min(line.size(), buffer.size() - 2);
  std::memcpy(buffer.data(), line.data(), length);
  buffer[length] = '\n';
  buffer[length + 1] = '\0';
  parting.store(line.empty() ? nullptr : buffer.data(), std::memory_order_release);
}

}  // namespace samebits::cli
