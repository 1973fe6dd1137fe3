// SPDX-License-Identifier: Apache-2.0
#include "base/float_mode.h"

#include "base/threads.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace snug {
namespace {

void count_subnormals_as_zero() {
#if defined(__x86_64__)
  // Two bits of MXCSR: subnormal results count as zero, and so do subnormal operands.
  constexpr unsigned kSubnormalBits = 1U << 15 | 1U << 6;
  _mm_setcsr(_mm_getcsr() | kSubnormalBits);
#endif
}

// On x86 this ends the counting of subnormals as zero, too.
void begin(std::fenv_t& before, Subnormals subnormals) {
  std::fegetenv(&before);
  std::fesetenv(FE_DFL_ENV);
  if (subnormals == Subnormals::zero) count_subnormals_as_zero();
}

// What a worker's environment was before a mode that it takes part in. The outermost keeps it.
struct Kept {
  const void* mode = nullptr;
  std::fenv_t before{};
};
thread_local Kept kept;

}  // namespace

DefaultFloatMode::DefaultFloatMode() noexcept { begin(before_, Subnormals::kept); }
DefaultFloatMode::~DefaultFloatMode() { std::fesetenv(&before_); }

// The caller first: a worker that is made later begins with the caller's.
TeamFloatMode::TeamFloatMode(int threads, Subnormals subnormals) noexcept : threads_(threads) {
  begin(before_, subnormals);
  const Kept* caller = &kept;
  parallel_for(threads_, threads_, 1, [&](int64_t, int64_t) {
    if (&kept == caller) return;
    std::fenv_t before;
    begin(before, subnormals);
    if (kept.mode == nullptr) kept = {.mode = this, .before = before};
  });
}

TeamFloatMode::~TeamFloatMode() {
  std::fesetenv(&before_);
  const Kept* caller = &kept;
  parallel_for(threads_, threads_, 1, [&](int64_t, int64_t) {
    if (&kept == caller) return;
    // A worker that was made meanwhile has none of its own.
    std::fesetenv(kept.mode == this ? &kept.before : &before_);
    if (kept.mode == this) kept.mode = nullptr;
  });
}

}  // namespace snug
