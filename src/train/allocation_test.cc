// SPDX-License-Identifier: Apache-2.0
// A step allocates nothing of ours; oneDNN's argument lists are few, small, freed, and the same at
// every step.
#include <gtest/gtest.h>

#include "backend/cpu/allocation_testing.h"
#include "backend/cpu/cpu_backend.h"
#include "train/testing.h"

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
    const Allocations counted = count_allocations([&] {
      for (int64_t piece = 0; piece < run.plan.accumulation_steps; ++piece)
        run.engine->train(0).run();
      run.engine->update()->run();
    });
    const int64_t products = run.plan.accumulation_steps * products_of(run.plan.train[0]);
    EXPECT_LE(counted.blocks, kBlocksPerProduct * products);
    EXPECT_LE(counted.bytes, kBytesPerProduct * products);
    EXPECT_EQ(counted.left_over, 0);
    if (first < 0) first = counted.blocks;
    EXPECT_EQ(counted.blocks, first);
  }
  // The update program has no matrix product, so it shows our own share alone: none.
  EXPECT_EQ(count_allocations([&] { run.engine->update()->run(); }).blocks, 0);
}

}  // namespace
}  // namespace snug::train
