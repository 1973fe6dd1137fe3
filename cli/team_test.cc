// SPDX-License-Identifier: Apache-2.0
// Fork, join and barrier, and that waiting for a thread that has no core costs no time of it.
#include "team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <ctime>
#include <numeric>
#include <thread>

namespace snug::cli {
namespace {

/// Calls `body()` in so many threads of the team.
template <class Callable>
void run_in(Team& team, int threads, Callable body) {
  team.run([](void* data) { (*static_cast<Callable*>(data))(); }, &body, threads);
}

TEST(Team, every_thread_runs_the_body_once_under_its_number) {
  Team team;
  for (const int threads : {2, 5, 1, 3, 2}) {
    std::vector<std::atomic<int>> runs(5);
    run_in(team, threads, [&] {
      EXPECT_EQ(Team::size(), threads);
      ++runs[static_cast<size_t>(Team::rank())];
    });
    for (int rank = 0; rank < 5; ++rank)
      EXPECT_EQ(runs[static_cast<size_t>(rank)], rank < threads ? 1 : 0) << threads;
  }
  EXPECT_EQ(Team::size(), 1);
  EXPECT_EQ(Team::rank(), 0);
}

TEST(Team, what_was_written_before_is_seen_and_what_was_written_inside_is_there_after) {
  Team team;
  std::vector<int64_t> sums(4);
  int64_t expected = 0;
  for (int64_t i = 0; i < 5000; ++i) {
    const int64_t added = i;  // on the caller's stack, another at each round
    run_in(team, 4, [&] { sums[static_cast<size_t>(Team::rank())] += added; });
    expected += 4 * added;
    ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), expected);
  }
}

TEST(Team, nobody_passes_a_barrier_before_all_are_there) {
  Team team;
  std::atomic<int> arrived = 0;
  std::atomic<int> wrong = 0;
  run_in(team, 3, [&] {
    for (int round = 1; round <= 500; ++round) {
      ++arrived;
      team.barrier();
      if (arrived != 3 * round) ++wrong;
      team.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Team, a_team_inside_a_team_is_the_caller_alone) {
  Team team;
  std::atomic<int> inner = 0;
  run_in(team, 3, [&] {
    const int rank = Team::rank();
    run_in(team, 2, [&] {
      EXPECT_EQ(Team::size(), 1);
      EXPECT_EQ(Team::rank(), 0);
      team.barrier();
      ++inner;
    });
    EXPECT_EQ(Team::rank(), rank);
    EXPECT_EQ(Team::size(), 3);
  });
  EXPECT_EQ(inner, 3);
}

TEST(Team, two_callers_at_once_both_get_their_work_done) {
  Team team;
  std::atomic<int> shares = 0;
  const auto many = [&] {
    for (int i = 0; i < 2000; ++i) {
      std::atomic<int> team_size = 0;
      std::atomic<int> here = 0;
      run_in(team, 2, [&] {
        team_size = Team::size();
        ++here;
      });
      EXPECT_EQ(here, team_size);
      shares += here;
    }
  };
  std::thread other(many);
  many();
  other.join();
  EXPECT_GE(shares, 4000);
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Four threads on one core: whoever spins keeps those away that it waits for.
TEST(Team, threads_without_a_core_cost_no_processor_time) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  Team team;
  constexpr int kJoins = 1000;
  run_in(team, 4, [] {});
  const double before = processor_seconds();
  for (int i = 0; i < kJoins; ++i) run_in(team, 4, [] {});
  const double seconds = processor_seconds() - before;
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_LT(seconds, kJoins * 150e-6);  // a spin in vain is 200 us, libgomp's some milliseconds
}

}  // namespace
}  // namespace snug::cli
