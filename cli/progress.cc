// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "terminal.h"

namespace snug::cli {
namespace {

constexpr int kBarWidth = 28;
constexpr int kShortestBar = 8;
constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kLogInterval{30};
constexpr std::chrono::seconds kPhaseInterval{5};  // of lines that say another phase

std::string remaining(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s left", seconds)
                      : fmt::format("{:.0f} min left", seconds / 60);
}

void write(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressReporter::ProgressReporter() : is_terminal_(isatty(STDERR_FILENO) != 0) {}
ProgressReporter::~ProgressReporter() { clear(); }

void ProgressReporter::clear() {
  if (has_bar_) std::fputs("\r\033[K", stderr);
  has_bar_ = false;
}

void ProgressReporter::line(const std::string& text) {
  clear();
  write(wrapped(text, terminal_columns(STDERR_FILENO)) + "\n");
}

void ProgressReporter::show(const Progress& progress) {
  const auto now = Clock::now();
  const bool is_new = progress.stage != stage_;
  if (is_new) {
    stage_ = progress.stage;
    stage_start_ = now;
    last_shown_ = now;
    stage_first_ = progress.done;
    note_.clear();
  }
  const bool is_other_phase = progress.phase != phase_;
  const bool is_end = progress.done == progress.total;
  if (is_terminal_) {
    if (!is_new && !is_end && !is_other_phase && now - last_shown_ < kTerminalInterval) return;
  } else if (is_new || is_end ||
             now - last_shown_ < (is_other_phase ? kPhaseInterval : kLogInterval)) {
    return;  // short stages say nothing in a log
  }
  last_shown_ = now;
  phase_ = progress.phase;
  const std::string name = progress.phase.empty() ? stage_ : stage_ + ", " + progress.phase;
  const double share =
      progress.total > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.total)
                         : 0;
  const std::chrono::duration<double> elapsed = now - stage_start_;
  const int64_t made = progress.done - stage_first_;
  std::string rest;
  if (made > 0 && progress.total > progress.done && elapsed.count() > 1) {
    rest = remaining(elapsed.count() / static_cast<double>(made) *
                     static_cast<double>(progress.total - progress.done));
  }
  if (!is_terminal_) {
    write(fmt::format("{}: {:.0f} % {} {}\n", name, 100 * share, rest, note_));
    return;
  }
  // The cursor stays on the line: one column less than the terminal has.
  const int columns = terminal_columns(STDERR_FILENO) - 1;
  const std::string numbers =
      fitted({fmt::format("{:3.0f} %", 100 * share), rest, note_}, columns / 2);
  const int room = columns - static_cast<int>(numbers.size()) - 2;
  const std::string stage = shortened(name, std::max(room - kShortestBar, 1));
  const int width = std::clamp(room - static_cast<int>(stage.size()), 0, kBarWidth);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < static_cast<int>(share * width) ? "█" : "░";
  write("\r\033[K" + stage + " " + bar + " " + numbers);
  has_bar_ = true;
  if (is_end) clear();
}

}  // namespace snug::cli
