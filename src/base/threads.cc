// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

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
  Region region{.parts = parts, .n = n, .grain = grain, .body = &body};
  begin_region();
  GOMP_parallel(run_region, &region, static_cast<unsigned>(parts), 0);
  end_region();
}

void parallel_for(int threads, int64_t n, int64_t grain, RangeBody body) noexcept {
  parallel_parts_for(threads, n, grain, [&](int, int64_t begin, int64_t end) { body(begin, end); });
}

namespace {

#if defined(__x86_64__)
// Of MXCSR: results that are subnormal are zero, and so are operands.
constexpr unsigned kSubnormalBits = 1U << 15 | 1U << 6;
unsigned subnormal_bits() { return _mm_getcsr() & kSubnormalBits; }
void set_subnormal_bits(unsigned bits) { _mm_setcsr((_mm_getcsr() & ~kSubnormalBits) | bits); }
#else
constexpr unsigned kSubnormalBits = 0;
unsigned subnormal_bits() { return 0; }
void set_subnormal_bits(unsigned) {}
#endif

void set_subnormal_bits_in_team(void* bits) {
  enter_region();
  set_subnormal_bits(*static_cast<const unsigned*>(bits));
  leave_region();
}

// The caller first: a worker that is made later begins with the caller's.
void set_subnormal_bits_of_all(unsigned bits, int threads) {
  set_subnormal_bits(bits);
  if (threads < 2) return;
  begin_region();
  GOMP_parallel(set_subnormal_bits_in_team, &bits, static_cast<unsigned>(threads), 0);
  end_region();
}

}  // namespace

SubnormalsAsZero::SubnormalsAsZero(int threads) noexcept
    : threads_(kSubnormalBits != 0 ? threads : 0), before_(subnormal_bits()) {
  if (threads_ > 0) set_subnormal_bits_of_all(kSubnormalBits, threads_);
}
SubnormalsAsZero::~SubnormalsAsZero() {
  if (threads_ > 0) set_subnormal_bits_of_all(before_, threads_);
}

void set_library_threads(int threads) { omp_set_num_threads(std::max(threads, 1)); }

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace snug
