// SPDX-License-Identifier: Apache-2.0
// The entry points of OpenMP that oneDNN and the library's loops use (as GCC calls them), on the
// program's own team. Defined here, in the program, they come before those of libgomp. A test
// compares this list with what the program's libraries ask for.
#include <sched.h>

#include <algorithm>

#include "team.h"

namespace snug::cli {
namespace {

// Its threads may outlive every other static object.
Team& team() {
  static auto* const program = new Team;
  return *program;
}

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

thread_local int asked_threads = 0;  // omp_set_num_threads; 0: every core

int threads_of_next_team() {
  if (Team::size() > 1) return 1;
  return asked_threads > 0 ? asked_threads : cores();
}

}  // namespace
}  // namespace snug::cli

// NOLINTBEGIN(readability-identifier-naming): OpenMP's and GCC's names
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned /*flags*/) {
  using namespace snug::cli;
  team().run(body, data, threads > 0 ? static_cast<int>(threads) : threads_of_next_team());
}
void GOMP_barrier() { snug::cli::team().barrier(); }
int omp_get_max_threads() { return snug::cli::threads_of_next_team(); }
int omp_get_num_threads() { return snug::cli::Team::size(); }
int omp_get_thread_num() { return snug::cli::Team::rank(); }
int omp_in_parallel() { return snug::cli::Team::size() > 1 ? 1 : 0; }
void omp_set_num_threads(int threads) { snug::cli::asked_threads = std::max(threads, 1); }
}
// NOLINTEND(readability-identifier-naming)
