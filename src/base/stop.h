// SPDX-License-Identifier: Apache-2.0
// How long computations end early: loops that may take long call stop_point() now and then, which
// throws where the caller's flag is set or the caller's deadline is past.
//
// What stops a computation belongs to the thread for as long as a StopScope lives. A parameter
// would have to pass through every function between a verb and the innermost loop of the planner,
// and each that forgot it would be a command that hears no signal. Nothing but when to give up is
// passed this way: no result depends on it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

namespace snug {

class Error;

using StopClock = std::chrono::steady_clock;

struct StopConditions {
  const std::atomic<bool>* cancel = nullptr;      // set by anybody at any time; null: never
  std::optional<StopClock::time_point> deadline;  // none: never
  /// Where `cancel` is heard, before anything is given back; null: nothing to do.
  const std::function<void(const Error&)>* on_cancel = nullptr;
  const char* work = "planning";  // what is stopped, for the error
};

/// For its life, computations of this thread stop on these conditions as well as on those of the
/// scopes around it.
class StopScope {
 public:
  explicit StopScope(const StopConditions& conditions);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  [[nodiscard]] bool is_due() const;  // of this scope and those around it
  [[nodiscard]] const char* work() const { return conditions_.work; }
  void tell(const Error& stop) const;  // those of them that are cancelled

 private:
  StopConditions conditions_;
  const StopScope* outer_;
};

/// For its life nothing stops this thread: on the short way from what a stopped search has found to
/// its result.
class StopPause {
 public:
  StopPause();
  ~StopPause();
  StopPause(const StopPause&) = delete;
  StopPause& operator=(const StopPause&) = delete;

 private:
  const StopScope* paused_;
};

/// Whether a scope of this thread says stop. A few nanoseconds without a deadline, 30 with one.
[[nodiscard]] bool is_stop_due();

/// Throws Error{cancelled} where is_stop_due().
void stop_point();

/// stop_point() in every `Every`-th call: for loops whose rounds are shorter than a clock's
/// reading.
template <int Every>
class SparseStopPoint {
 public:
  void operator()() {
    if (++calls_ % Every == 0) stop_point();
  }

 private:
  unsigned calls_ = 0;
};

}  // namespace snug
