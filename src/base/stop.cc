// SPDX-License-Identifier: Apache-2.0
#include "base/stop.h"

#include "base/stop_of_thread.h"
#include "snug/error.h"

namespace snug {
namespace {

thread_local const StopScope* innermost = nullptr;

}  // namespace

StopScope::StopScope(const StopConditions& conditions)
    : conditions_(conditions), outer_(innermost) {
  innermost = this;
}

StopScope::~StopScope() { innermost = outer_; }

StopPause::StopPause() : paused_(innermost) { innermost = nullptr; }

StopPause::~StopPause() { innermost = paused_; }

const StopScope*& stop_of_thread() { return innermost; }

bool StopScope::is_due() const {
  for (const StopScope* scope = this; scope != nullptr; scope = scope->outer_) {
    const StopConditions& at = scope->conditions_;
    if (at.cancel != nullptr && at.cancel->load(std::memory_order_relaxed)) return true;
    if (at.deadline && StopClock::now() >= *at.deadline) return true;
  }
  return false;
}

void StopScope::tell(const Error& stop) const {
  for (const StopScope* scope = this; scope != nullptr; scope = scope->outer_) {
    const StopConditions& at = scope->conditions_;
    if (at.on_cancel != nullptr && at.cancel != nullptr && at.cancel->load()) (*at.on_cancel)(stop);
  }
}

bool is_stop_due() { return innermost != nullptr && innermost->is_due(); }

void stop_point() {
  if (!is_stop_due()) return;
  const Error stop(ErrorCode::cancelled, innermost->work(), "stopped on request");
  innermost->tell(stop);
  throw stop;
}

}  // namespace snug
