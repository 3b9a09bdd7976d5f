#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace samebits::cli {

std::string duration_text(double seconds) {
  char text[64];
  if (!(seconds < 360000.0)) return "> 99 h";
  const auto whole = static_cast<long>(seconds);
  if (seconds < 60) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else if (seconds < 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

Progress::Progress(ProgressMode mode, std::string label, std::string unit, std::int64_t total,
                   double step_bytes)
    : terminal_(::isatty(STDERR_FILENO) == 1),
      label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      step_bytes_(step_bytes) {
  shown_ = mode == ProgressMode::kAlways || (mode == ProgressMode::kAuto && terminal_);
}

Progress::~Progress() {
  if (!shown_ || width_ == 0) return;
  if (terminal_) std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
}

void Progress::advance(std::int64_t steps) {
  done_ += steps;
  if (!shown_) return;
  // Ten lines a second on a terminal, one every two seconds in a log; the last one always.
  const auto pause = std::chrono::milliseconds(terminal_ ? 100 : 2000);
  const auto now = Clock::now();
  if (done_ < total_ && now - last_ < pause) return;
  last_ = now;
  show();
}

std::string Progress::line(double elapsed_seconds) const {
  constexpr int kBar = 24;
  const double share =
      total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 1.0;
  std::string bar(static_cast<std::size_t>(share * kBar), '#');
  bar.resize(kBar, '.');
  char text[256];
  std::snprintf(text, sizeof text, " [%s] %3.0f%%  %lld/%lld ", bar.c_str(), std::floor(share * 100),
                static_cast<long long>(done_), static_cast<long long>(total_));
  std::string out = label_ + text + unit_;
  const auto now = static_cast<double>(done_ - before_);
  if (elapsed_seconds > 0) {
    const bool bytes = step_bytes_ > 0;
    std::snprintf(text, sizeof text, "  %.1f ", now * (bytes ? step_bytes_ * 1e-9 : 1) / elapsed_seconds);
    out += text + (bytes ? "GB" : unit_) + "/s";
  }
  if (done_ >= total_) return out + "  " + duration_text(elapsed_seconds);
  if (now > 0)
    out += "  " + duration_text(elapsed_seconds / now * static_cast<double>(total_ - done_)) + " left";
  return out;
}

void Progress::show() {
  const std::string text = line(std::chrono::duration<double>(Clock::now() - start_).count());
  if (terminal_) {
    const std::size_t blanks = width_ > text.size() ? width_ - text.size() : 0;
    std::fprintf(stderr, "\r%s%*s", text.c_str(), static_cast<int>(blanks), "");
    width_ = std::max(width_, text.size());
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  std::fflush(stderr);
}

}  // namespace samebits::cli
