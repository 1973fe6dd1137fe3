// SPDX-License-Identifier: Apache-2.0
// A step allocates nothing of ours; oneDNN's argument lists are few, small, freed, and the same at
// every step. Counts by standing in for malloc, so it is not built with sanitizers.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "backend/cpu/cpu_backend.h"
#include "train/testing.h"

namespace {
std::atomic<bool> is_counting{false};
std::atomic<int64_t> blocks{0};
std::atomic<int64_t> bytes_asked{0};
std::atomic<int64_t> live_blocks{0};

void count_block(size_t bytes) {
  if (!is_counting) return;
  ++blocks;
  ++live_blocks;
  bytes_asked += static_cast<int64_t>(bytes);
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);  // NOLINT(bugprone-reserved-identifier): glibc's own
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void __libc_free(void* block);                          // NOLINT(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  count_block(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  count_block(count * bytes);
  return __libc_calloc(count, bytes);
}
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  count_block(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count_block(bytes);
  return __libc_memalign(alignment, bytes);
}
void free(void* block) {
  if (is_counting && block != nullptr) --live_blocks;
  __libc_free(block);
}
}

namespace snug::train {
namespace {

constexpr int64_t kBlocksPerProduct = 24;
constexpr int64_t kBytesPerProduct = 4096;

int64_t products_of(const PlannedProgram& program) {
  int64_t count = 0;
  for (const plan::Step& step : program.plan.steps) {
    count += program.lowered.problem.ops[static_cast<size_t>(step.op)].name.starts_with("matmul")
                 ? 1
                 : 0;
  }
  return count;
}

TEST(Allocation, a_step_allocates_only_onednns_argument_lists) {
  const auto backend = make_cpu_backend({.threads = 1, .profile = default_profile()});
  TestRun run(*backend, "all", 4, 2);
  run.initialize_cpu();
  (void)run.update_cpu(0);
  int64_t first = -1;
  for (int64_t i = 1; i < 4; ++i) {
    blocks = bytes_asked = live_blocks = 0;
    is_counting = true;
    for (int64_t piece = 0; piece < run.plan.accumulation_steps; ++piece)
      run.engine->train(0).run();
    run.engine->update()->run();
    is_counting = false;
    const int64_t products = run.plan.accumulation_steps * products_of(run.plan.train[0]);
    EXPECT_LE(blocks, kBlocksPerProduct * products);
    EXPECT_LE(bytes_asked, kBytesPerProduct * products);
    EXPECT_EQ(live_blocks, 0);
    if (first < 0) first = blocks;
    EXPECT_EQ(blocks, first);
  }
  // The update program has no matrix product, so it shows our own share alone: none.
  blocks = 0;
  is_counting = true;
  run.engine->update()->run();
  is_counting = false;
  EXPECT_EQ(blocks, 0);
}

}  // namespace
}  // namespace snug::train
