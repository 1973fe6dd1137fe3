// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>

#ifdef __SANITIZE_THREAD__
// libgomp is not instrumented, so ThreadSanitizer sees neither the start nor the end of a region:
// both are told to it here. The region itself and its hidden block of captured variables, written
// after begin_region() and read before enter_region(), are left out of its sight.
extern "C" {
void __tsan_acquire(void* address);  // NOLINT(bugprone-reserved-identifier)
void __tsan_release(void* address);  // NOLINT(bugprone-reserved-identifier)
}
namespace {
char region_start, region_end;
void begin_region() { __tsan_release(&region_start); }
void enter_region() { __tsan_acquire(&region_start); }
void leave_region() { __tsan_release(&region_end); }
void end_region() { __tsan_acquire(&region_end); }
}  // namespace
#define SNUG_UNSEEN_BY_TSAN __attribute__((no_sanitize("thread")))
#else
namespace {
void begin_region() {}
void enter_region() {}
void leave_region() {}
void end_region() {}
}  // namespace
#define SNUG_UNSEEN_BY_TSAN
#endif

namespace snug {

int parallel_parts(int threads, int64_t n, int64_t grain) {
  if (n <= 0) return 0;
  const int64_t grains = (n + grain - 1) / grain;
  return static_cast<int>(std::min<int64_t>(std::max(threads, 1), grains));
}

SNUG_UNSEEN_BY_TSAN
void parallel_parts_for(int threads, int64_t n, int64_t grain, PartBody body) noexcept {
  const int parts = parallel_parts(threads, n, grain);
  if (parts <= 1) {
    if (n > 0) body(0, 0, n);
    return;
  }
  const int64_t grains = (n + grain - 1) / grain;
  begin_region();
#pragma omp parallel num_threads(parts)
  {
    enter_region();
    // A nested or short-handed team still covers every part.
    const int team = omp_get_num_threads();
    for (int part = omp_get_thread_num(); part < parts; part += team) {
      const int64_t begin = grains * part / parts * grain;
      const int64_t end = std::min(n, grains * (part + 1) / parts * grain);
      if (begin < end) body(part, begin, end);
    }
    leave_region();
  }
  end_region();
}

void parallel_for(int threads, int64_t n, int64_t grain, RangeBody body) noexcept {
  parallel_parts_for(threads, n, grain, [&](int, int64_t begin, int64_t end) { body(begin, end); });
}

void set_library_threads(int threads) { omp_set_num_threads(std::max(threads, 1)); }

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace snug
