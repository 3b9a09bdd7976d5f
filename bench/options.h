// Sizes that the command line asks for in place of a benchmark's own.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

namespace samebits::bench {

using Sizes = std::vector<std::int64_t>;

// Empty: not asked for.
struct Options {
  Sizes rows, vocab, hidden, threads;
  bool any() const { return !(rows.empty() && vocab.empty() && hidden.empty() && threads.empty()); }
};

inline Sizes or_else(const Sizes& asked, Sizes own) { return asked.empty() ? own : asked; }

// Part of a benchmark's name, where the size was asked for.
inline std::string named(const char* size, std::int64_t value, const Sizes& asked) {
  return asked.empty() ? "" : std::string("/") + size + ":" + std::to_string(value);
}

// Registers benchmarks once the options are known.
class Registered {
 public:
  using Add = void (*)(const Options&);
  explicit Registered(Add add) { all().push_back(add); }
  static void run(const Options& options) {
    for (const Add add : all()) add(options);
  }

 private:
  static std::vector<Add>& all() {
    static std::vector<Add> registered;
    return registered;
  }
};

}  // namespace samebits::bench
