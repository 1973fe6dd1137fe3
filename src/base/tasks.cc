// SPDX-License-Identifier: Apache-2.0
#include "base/tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include "base/float_mode.h"
#include "base/stop_of_thread.h"
#include "base/threads.h"
#include "snug/error.h"

namespace snug {
namespace {

class SharedStop {
 public:
  explicit SharedStop(const StopScope* of_caller) : own_(stop_of_thread()) {
    stop_of_thread() = of_caller;
  }
  ~SharedStop() { stop_of_thread() = own_; }
  SharedStop(const SharedStop&) = delete;
  SharedStop& operator=(const SharedStop&) = delete;

 private:
  const StopScope* own_;
};

}  // namespace

void run_tasks(int threads, int64_t count, const std::function<void(int64_t)>& work) {
  const StopScope* const stop = stop_of_thread();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::atomic<int64_t> next = 0;
  const int64_t parts = std::min<int64_t>(std::max(threads, 1), count);
  parallel_for(static_cast<int>(parts), parts, 1, [&](int64_t, int64_t) {
    const DefaultFloatMode float_mode;
    const SharedStop shared(stop);
    for (int64_t task = next++; task < count; task = next++) {
      try {
        work(task);
      } catch (...) {
        errors[static_cast<size_t>(task)] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

int usable_threads() {
  try {
    check_threads(2);
  } catch (const Error&) {
    return 1;
  }
  return available_threads();
}

}  // namespace snug
