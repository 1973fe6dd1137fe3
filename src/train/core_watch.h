// SPDX-License-Identifier: Apache-2.0
// Whether other processes take the cores that this one wants: said once a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "snug/run.h"

namespace snug::train {

/// What all threads of a process did up to now.
struct ThreadTimes {
  double running_seconds = 0;
  double waiting_seconds = 0;  // ready to run, without a core
};
/// Nothing where the system does not count it. Files are read below `root`, for tests.
[[nodiscard]] std::optional<ThreadTimes> thread_times(const std::string& root = "");

/// About a run whose threads waited so long for cores; nothing where that is less than a fifth of
/// their time. `spins`: OpenMP's threads spin while they wait.
[[nodiscard]] std::optional<Warning> shared_cores_warning(const ThreadTimes& times, bool spins);

/// Says it after the first two seconds of updates, or is silent.
class CoreWatch {
 public:
  CoreWatch();
  /// Call after an update; something at most once.
  [[nodiscard]] std::optional<Warning> after_update();

 private:
  std::optional<ThreadTimes> begin_;  // nothing: has looked
  std::chrono::steady_clock::time_point start_;
};

}  // namespace snug::train
