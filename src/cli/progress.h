// A progress line on stderr: share done, rate, time left.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace samebits::cli {

enum class ProgressMode { kAuto, kAlways, kNever };  // kAuto: when stderr is a terminal

class Progress {
 public:
  /// `total` steps of `unit` ("rows"). The rate is in GB/s for `step_bytes` > 0, else in steps.
  Progress(ProgressMode mode, std::string label, std::string unit, std::int64_t total, double step_bytes = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `steps` were done before: they count for the share, not for the rate.
  void start_at(std::int64_t steps) { done_ = before_ = steps; }

  void advance(std::int64_t steps);

  /// The line, as text; public so that a test can read it.
  std::string line(double elapsed_seconds) const;

 private:
  using Clock = std::chrono::steady_clock;
  void show();

  bool shown_, terminal_;
  std::string label_, unit_;
  std::int64_t total_, done_ = 0, before_ = 0;
  double step_bytes_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = {};
  std::size_t width_ = 0;  // of the longest line so far, to blank it
};

/// "4.2 s", "3:07", "2:05:09"
std::string duration_text(double seconds);

}  // namespace samebits::cli
