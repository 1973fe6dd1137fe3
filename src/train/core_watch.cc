// SPDX-License-Identifier: Apache-2.0
#include "train/core_watch.h"

#include <algorithm>
#include <cmath>

#include "base/numbers.h"
#include "base/openmp.h"
#include "base/pieces.h"
#include "io/file.h"

namespace snug::train {

std::optional<ThreadTimes> thread_times(const std::string& root) {
  const std::string tasks = root + "/proc/self/task";
  if (!io::is_folder(tasks)) return std::nullopt;
  ThreadTimes sum;
  bool is_counted = false;
  for (const std::string& task : io::list_folder(tasks)) {
    const std::string file = io::read_all_if_any(tasks + "/" + task + "/schedstat", 4096);
    const std::vector<std::string_view> words = words_in(file);
    if (words.size() < 2) continue;  // the thread is gone, or nothing is counted
    const std::optional<int64_t> running = number_in<int64_t>(words[0]);
    const std::optional<int64_t> waiting = number_in<int64_t>(words[1]);
    if (!running || !waiting) continue;
    sum.running_seconds += 1e-9 * static_cast<double>(*running);
    sum.waiting_seconds += 1e-9 * static_cast<double>(*waiting);
    is_counted = true;
  }
  if (!is_counted) return std::nullopt;
  return sum;
}

std::optional<Warning> shared_cores_warning(const ThreadTimes& times, bool spins) {
  const double share =
      times.waiting_seconds / std::max(times.running_seconds + times.waiting_seconds, 1e-9);
  if (!(share > 0.2)) return {};
  const std::string cure =
      spins ? "OpenMP's threads spin while they wait, which makes this many times worse: set "
              "OMP_WAIT_POLICY=passive in the environment before the process starts, or lower "
              "threads"
            : "lower threads, or stop the other processes";
  return Warning{.code = "shared_cores",
                 .text =
                     "other processes use the cores: the threads of this run waited for one "
                     "for " +
                     std::to_string(std::lround(100 * share)) + " % of their time (" + cure + ")",
                 .count = 0,
                 .share = share};
}

CoreWatch::CoreWatch() : begin_(thread_times()), start_(std::chrono::steady_clock::now()) {}

std::optional<Warning> CoreWatch::after_update() {
  if (!begin_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(2)) return {};
  const ThreadTimes begin = *begin_;
  begin_.reset();
  const std::optional<ThreadTimes> now = thread_times();
  if (!now) return {};
  return shared_cores_warning({.running_seconds = now->running_seconds - begin.running_seconds,
                               .waiting_seconds = now->waiting_seconds - begin.waiting_seconds},
                              openmp_spins());
}

}  // namespace snug::train
