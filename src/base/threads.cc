// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>

#include "base/given_threads.h"
#include "snug/error.h"

// What a parallel region becomes: called by name because GCC's and LLVM's runtimes both have it,
// and the program `snug` defines it (cli/openmp.cc).
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

#ifdef __SANITIZE_THREAD__
// OpenMP's runtimes are not instrumented, so ThreadSanitizer sees neither the start nor the end of
// a region: both are told to it here.
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
#else
namespace {
void begin_region() {}
void enter_region() {}
void leave_region() {}
void end_region() {}
}  // namespace
#endif

namespace snug {

int parallel_parts(int threads, int64_t n, int64_t grain) {
  if (n <= 0) return 0;
  const int64_t grains = (n + grain - 1) / grain;
  return static_cast<int>(std::min<int64_t>(std::max(threads, 1), grains));
}

namespace {

// One for the whole process, which OpenMP's threads belong to.
std::atomic<bool> has_workers = false;
std::atomic<bool> has_lost_workers = false;

void note_workers() {
  if (has_workers.load(std::memory_order_relaxed) || has_workers.exchange(true)) return;
  const int failure = pthread_atfork(nullptr, nullptr, [] { has_lost_workers = true; });
  if (failure != 0) has_workers = false;  // no memory: the next loop tries again
}

struct Region {
  int parts;
  int64_t n;
  int64_t grain;
  const PartBody* body;
};

void run_region(void* data) {
  enter_region();
  const Region& region = *static_cast<const Region*>(data);
  const int64_t grains = (region.n + region.grain - 1) / region.grain;
  // A nested or short-handed team still covers every part.
  const int team = omp_get_num_threads();
  for (int part = omp_get_thread_num(); part < region.parts; part += team) {
    const int64_t begin = grains * part / region.parts * region.grain;
    const int64_t end = std::min(region.n, grains * (part + 1) / region.parts * region.grain);
    if (begin < end) (*region.body)(part, begin, end);
  }
  leave_region();
}

}  // namespace

void parallel_parts_for(int threads, int64_t n, int64_t grain, PartBody body) noexcept {
  const int parts = parallel_parts(threads, n, grain);
  if (parts <= 1) {
    if (n > 0) body(0, 0, n);
    return;
  }
  note_workers();
  Region region{.parts = parts, .n = n, .grain = grain, .body = &body};
  begin_region();
  GOMP_parallel(run_region, &region, static_cast<unsigned>(parts), 0);
  end_region();
}

void parallel_for(int threads, int64_t n, int64_t grain, RangeBody body) noexcept {
  parallel_parts_for(threads, n, grain, [&](int, int64_t begin, int64_t end) { body(begin, end); });
}

bool has_threads(int threads) {
  return threads < 2 || !has_lost_workers.load(std::memory_order_relaxed);
}

void check_threads(int threads) {
  if (!has_threads(threads)) {
    throw Error(ErrorCode::unsupported, "threads",
                "this process was forked from one that had computed in several threads, of which "
                "it has none: it would wait for them for ever",
                "fork before anything is computed, let the child start a program (exec), or plan "
                "in the child with threads = 1");
  }
  if (!check_given_threads(threads)) return;
  // They are there from now on, whatever is mapped meanwhile.
  parallel_for(threads, threads, 1, [](int64_t, int64_t) {});
}

void set_library_threads(int threads) { omp_set_num_threads(std::max(threads, 1)); }

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace snug
