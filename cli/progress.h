// SPDX-License-Identifier: Apache-2.0
// Progress on stderr: a bar on a terminal, nothing but plain lines elsewhere (a log never holds a
// carriage return).
#pragma once

#include <chrono>
#include <string>

#include "snug/run.h"

namespace snug::cli {

class ProgressReporter {
 public:
  ProgressReporter();
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  void show(const Progress& progress);
  /// A whole line; the bar moves below it.
  void line(const std::string& text);
  void clear();
  /// Text at the end of the bar: the newest loss.
  void set_note(std::string note) { note_ = std::move(note); }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_terminal_;
  bool has_bar_ = false;
  std::string stage_;
  std::string phase_;
  std::string note_;
  Clock::time_point stage_start_;
  Clock::time_point last_shown_;
  int64_t stage_first_ = 0;
};

}  // namespace snug::cli
