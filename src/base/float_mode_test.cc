// SPDX-License-Identifier: Apache-2.0
#include "base/float_mode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <numeric>
#include <vector>

#include "base/threads.h"

namespace snug {
namespace {

constexpr int kThreads = 4;

// What `measure` gives in the workers, summed up.
template <class Measure>
int sum_over_workers(const Measure& measure) {
  std::vector<int> found(kThreads, 0);
  parallel_for(kThreads, kThreads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) found[static_cast<size_t>(i)] = measure();
  });
  return std::accumulate(found.begin(), found.end(), 0);
}

TEST(FloatMode, subnormals_are_zero_in_all_workers_while_asked_and_as_before_then) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "subnormal numbers stay what they are";
#endif
  // Whether a subnormal operand is kept, and whether a subnormal result is.
  const auto kept = [] {
    return sum_over_workers([] {
      volatile float one = 1;
      volatile float subnormal = std::bit_cast<float>(5U);
      volatile float smallest = 0x1p-126F;
      return (subnormal * 0x1p30F * one > 0 ? 1 : 0) +
             (smallest * 0.5F * one * 0x1p30F > 0 ? 10 : 0);
    });
  };
  EXPECT_EQ(kept(), 44);
  {
    const TeamFloatMode mode(kThreads, Subnormals::zero);
    EXPECT_EQ(kept(), 0);
    { const TeamFloatMode again(kThreads, Subnormals::zero); }
    EXPECT_EQ(kept(), 0);
  }
  EXPECT_EQ(kept(), 44);
  {
    const TeamFloatMode none(kThreads, Subnormals::kept);
    EXPECT_EQ(kept(), 44);
  }
}

#if defined(__GLIBC__) && defined(__x86_64__)

// Whether division by zero traps, in every worker.
int trapping() {
  return sum_over_workers([] { return (fegetexcept() & FE_DIVBYZERO) != 0 ? 1 : 0; });
}

TEST(FloatMode, nothing_traps_in_any_worker_and_each_is_as_it_was_then) {
  const auto set_all = [](bool traps) {
    (void)sum_over_workers(
        [traps] { return traps ? feenableexcept(FE_DIVBYZERO) : fedisableexcept(FE_DIVBYZERO); });
  };
  set_all(true);
  if (trapping() != kThreads) GTEST_SKIP() << "Clang's OpenMP gives workers the caller's each time";
  {
    const TeamFloatMode mode(kThreads, Subnormals::kept);
    EXPECT_EQ(trapping(), 0);
    {
      const TeamFloatMode inner(kThreads, Subnormals::zero);
      EXPECT_EQ(trapping(), 0);
    }
    EXPECT_EQ(trapping(), 0);
  }
  EXPECT_EQ(trapping(), kThreads);
  set_all(false);
  feenableexcept(FE_DIVBYZERO);  // the caller alone, when its workers are there
  { const TeamFloatMode mode(kThreads, Subnormals::kept); }
  EXPECT_EQ(trapping(), 1);
  fedisableexcept(FE_DIVBYZERO);
}

TEST(FloatMode, the_callers_environment_is_put_aside_whole) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::fesetround(FE_UPWARD);
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  {
    const DefaultFloatMode mode;
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    volatile double zero = 0;
    volatile double nothing = zero / zero;
    volatile long double long_zero = 0;  // on the other unit
    volatile long double infinite = 1 / long_zero;
    (void)nothing;
    (void)infinite;
    EXPECT_NE(std::fetestexcept(FE_INVALID), 0);
  }
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  EXPECT_EQ(fegetexcept(), FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  EXPECT_EQ(std::fetestexcept(FE_INVALID | FE_DIVBYZERO), 0);
  volatile long double one = 1;
  one = one + 1;  // a flag left on the other unit would trap here
  std::fesetenv(FE_DFL_ENV);
}

#endif

}  // namespace
}  // namespace snug
