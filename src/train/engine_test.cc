// SPDX-License-Identifier: Apache-2.0
// The contract inside one process: plans do not change results, dead bytes are not read, planned is
// measured, the CPU agrees with the reference in double.
#include "session/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "base/wildcard.h"
#include "plan/problem/validate.h"
#include "snug/error.h"
#include "train/testing.h"

namespace snug::train {

using compile::trainable_names;

namespace {

TEST(Engine, every_strategy_gives_the_same_bits_with_and_without_clipping) {
  const auto backend = cpu();
  for (const double clip : {1.0, 0.0}) {
    for (const int64_t micro_batch : {4, 2}) {
      std::string wanted;
      for (const char* strategy : {"none", "all", "sqrt", "every:2", "every:1"}) {
        TestRun run(*backend, strategy, 4, micro_batch, clip);
        run.initialize_cpu();
        for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(run.update_cpu(i)));
        if (wanted.empty()) wanted = run.bytes();
        EXPECT_EQ(run.bytes() == wanted, true)
            << strategy << " micro-batch " << micro_batch << " clip " << clip;
        run.engine->check_memory();
        EXPECT_EQ(run.engine->measured_arena_bytes(), run.plan.arena_bytes) << strategy;
      }
    }
  }
}

TEST(Engine, recomputation_really_lowers_the_arena_and_runs_ops_twice) {
  const auto backend = cpu();
  const TestRun keep(*backend, "none", 64, 64);
  const TestRun redo(*backend, "all", 64, 64);
  EXPECT_LT(redo.plan.arena_bytes, keep.plan.arena_bytes);
  EXPECT_GT(redo.plan.train[0].plan.steps.size(), keep.plan.train[0].plan.steps.size());
}

TEST(Engine, poisoning_dead_bytes_changes_nothing) {
  const auto backend = cpu();
  for (const char* strategy : {"none", "all"}) {
    TestRun plain(*backend, strategy, 4, 2);
    TestRun poisoned(*backend, strategy, 4, 2);
    poisoned.engine->set_poisoning(true);
    plain.initialize_cpu();
    poisoned.initialize_cpu();
    for (int64_t i = 0; i < 2; ++i) EXPECT_EQ(plain.update_cpu(i), poisoned.update_cpu(i));
    EXPECT_EQ(plain.bytes() == poisoned.bytes(), true) << strategy;
  }
}

TEST(Engine, reference_agrees_across_plans_and_splits_and_with_the_cpu) {
  const auto reference = make_reference_backend();
  const auto backend = cpu();
  TestRun whole(*reference, "none", 4, 4);
  TestRun redo(*reference, "all", 4, 4);
  TestRun split(*reference, "none", 4, 3);  // uneven: the second piece is padded
  TestRun fast(*backend, "none", 4, 4);
  for (TestRun* run : {&whole, &redo, &split}) run->initialize_reference();
  fast.initialize_cpu();
  for (int64_t i = 0; i < 3; ++i) {
    const double loss = whole.update_reference(i);
    EXPECT_EQ(redo.update_reference(i), loss);
    EXPECT_NEAR(split.update_reference(i), loss, 1e-12);
    EXPECT_NEAR(fast.update_cpu(i), loss, 2e-5);
  }
  EXPECT_EQ(whole.bytes() == redo.bytes(), true);
  const auto wanted = whole.engine->view<double>("classifier.weight");
  const auto found = split.engine->view<double>("classifier.weight");
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-10);
}

TEST(Engine, every_plan_of_a_run_passes_the_independent_check) {
  const auto backend = cpu();
  for (const char* strategy : {"none", "all", "auto"}) {
    const TestRun run(*backend, strategy, 4, 2);
    for (const auto* list : {&run.plan.train, &run.plan.eval}) {
      for (const choose::PlannedProgram& program : *list) {
        EXPECT_TRUE(plan::check(program.lowered.problem, program.plan).empty()) << strategy;
      }
    }
    EXPECT_TRUE(plan::check(run.plan.update->lowered.problem, run.plan.update->plan).empty());
  }
}

TEST(Engine, memory_of_the_caller_is_used_or_refused) {
  const auto backend = cpu();
  TestRun run(*backend, "none", 4, 4);
  std::vector<std::byte> small(4096);
  EXPECT_THROW(session::Engine(run.plan, *backend, {reinterpret_cast<std::byte*>(4096), 4096}),
               Error);
  const size_t bytes =
      static_cast<size_t>(run.plan.residents.total_bytes() + run.plan.arena_bytes + 8192);
  const std::unique_ptr<std::byte, decltype(&std::free)> block(
      static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), &std::free);
  session::Engine engine(run.plan, *backend, {block.get(), bytes});
  const std::byte* weight = engine.view<std::byte>("classifier.weight").data();
  EXPECT_EQ(weight >= block.get(), true);
  EXPECT_LT(weight, block.get() + bytes);
  try {
    session::Engine unaligned(run.plan, *backend, {block.get() + 64, bytes - 64});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
  }
}

TEST(Recipe, patterns_and_their_errors) {
  EXPECT_TRUE(matches_wildcard("bert.*.weight", "bert.encoder.layer.0.weight"));
  EXPECT_TRUE(matches_wildcard("*", ""));
  EXPECT_TRUE(matches_wildcard("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches_wildcard("a*b", "aXbY"));
  EXPECT_FALSE(matches_wildcard("", "a"));
  EXPECT_EQ(trainable_names({"a.w", "b.w"}, {"a*"}), (std::vector<std::string>{"b.w"}));
  for (const auto& [freeze, text] : {std::pair<const char*, const char*>{"c*", "matches no weight"},
                                     {"*", "nothing to train"},
                                     {"embeddings", "no weights called embeddings"},
                                     {"first:1", "of the model, which has 0"}}) {
    try {
      (void)trainable_names({"a.w", "b.w"}, {freeze});
      FAIL() << freeze;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

TEST(Freeze, embeddings_and_the_first_layers) {
  const std::vector<std::string> names = {
      "embeddings.word.weight", "embeddings.norm.weight", "layer.0.weight", "layer.0.bias",
      "layer.1.weight",         "layer.2.weight",         "head.weight"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(trainable_names(names, {"embeddings"}), Names(names.begin() + 2, names.end()));
  Names wanted = {names[0], names[1], names[5], names[6]};
  EXPECT_EQ(trainable_names(names, {"first:2"}), wanted);
  EXPECT_EQ(trainable_names(names, {"embeddings", "first:3"}), Names{"head.weight"});
  for (const char* bad : {"first:4", "first:0", "first:", "first:two", "first:1.5", "first:-1"}) {
    try {
      (void)trainable_names(names, {bad});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("of the model, which has 3"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("give first:1 to first:3"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace snug::train
