// SPDX-License-Identifier: Apache-2.0
// The LSTM in the engine: weights that every step uses, with their gradients summed in place. Plans
// change no bit, dead bytes are not read, the CPU agrees with the reference in double.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "plan/problem/validate.h"
#include "snug/error.h"
#include "train/testing.h"

namespace snug::train {
namespace {

TEST(Lstm_engine, every_strategy_gives_the_same_bits_with_and_without_clipping) {
  const auto backend = cpu();
  for (const double clip : {1.0, 0.0}) {
    for (const int64_t micro_batch : {4, 2}) {
      std::string wanted;
      int64_t keep_all_bytes = 0;
      for (const char* strategy : {"none", "all", "sqrt", "every:2", "revolve:2", "speed"}) {
        TestRun run(*backend, TestRun::lstm_config(strategy, clip), 4, micro_batch);
        run.initialize_cpu();
        for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(run.update_cpu(i)));
        if (wanted.empty()) {
          wanted = run.bytes();
          keep_all_bytes = run.plan.arena_bytes;
        }
        const std::string where = std::string(strategy) + ", micro-batch " +
                                  std::to_string(micro_batch) + ", clip " + std::to_string(clip);
        EXPECT_EQ(run.bytes() == wanted, true) << where;
        run.engine->check_memory();
        EXPECT_EQ(run.engine->measured_arena_bytes(), run.plan.arena_bytes) << where;
        const bool saves = strategy == std::string("sqrt");
        EXPECT_EQ(saves && run.plan.arena_bytes >= keep_all_bytes, false) << where;
        const choose::PlannedProgram& program = run.plan.train[0];
        EXPECT_TRUE(plan::check(program.lowered.problem, program.plan).empty()) << where;
      }
    }
  }
}

TEST(Lstm_engine, poisoning_dead_bytes_changes_nothing) {
  const auto backend = cpu();
  for (const char* strategy : {"none", "revolve:2"}) {
    TestRun plain(*backend, TestRun::lstm_config(strategy, 1), 4, 4);
    TestRun poisoned(*backend, TestRun::lstm_config(strategy, 1), 4, 4);
    poisoned.engine->set_poisoning(true);
    plain.initialize_cpu();
    poisoned.initialize_cpu();
    for (int64_t i = 0; i < 2; ++i) EXPECT_EQ(plain.update_cpu(i), poisoned.update_cpu(i));
    EXPECT_EQ(plain.bytes() == poisoned.bytes(), true) << strategy;
  }
}

TEST(Lstm_engine, reference_agrees_across_plans_and_splits_and_with_the_cpu) {
  const auto reference = make_reference_backend();
  const auto backend = cpu();
  TestRun whole(*reference, TestRun::lstm_config("none", 1), 4, 4);
  TestRun redo(*reference, TestRun::lstm_config("all", 1), 4, 4);
  TestRun split(*reference, TestRun::lstm_config("none", 1), 4, 3);
  TestRun fast(*backend, TestRun::lstm_config("none", 1), 4, 4);
  for (TestRun* run : {&whole, &redo, &split}) run->initialize_reference();
  fast.initialize_cpu();
  for (int64_t i = 0; i < 3; ++i) {
    const double loss = whole.update_reference(i);
    EXPECT_EQ(redo.update_reference(i), loss);
    EXPECT_NEAR(split.update_reference(i), loss, 1e-12);
    EXPECT_NEAR(fast.update_cpu(i), loss, 2e-5);
  }
  EXPECT_EQ(whole.bytes() == redo.bytes(), true);
}

// No gradient of a weight is ever in the arena: neither whole nor as a sum of two.
TEST(Lstm_engine, gradients_of_recurrent_weights_have_no_temporaries) {
  const auto backend = cpu();
  const TestRun run(*backend, TestRun::lstm_config("none", 1), 4, 4);
  const choose::PlannedProgram& program = run.plan.train[0];
  int accumulated = 0;
  for (const Node& node : program.graph.nodes) {
    EXPECT_NE(*node.op->name, "embedding_grad");
    accumulated += *node.op->name == "matmul_accumulate" ? 1 : 0;
  }
  EXPECT_EQ(accumulated, 2 * 2 * 12) << "two weights, two layers, twelve steps";
  for (const char* name : {"grad.lstm.weight_hh_l0", "grad.embeddings.weight"})
    EXPECT_TRUE(run.plan.residents.has(name)) << name;
  EXPECT_FALSE(run.plan.residents.has("grad.classifier.weight"));
}

TEST(Model, keys_of_the_lstm_are_refused_elsewhere) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "embedding_size"}) {
    for (const char* name : {"bert-tiny", "mlp", "resnet-20"}) {
      RunConfig config;
      config.model = name;
      config.set(key, "8");
      try {
        (void)fitted_model(config);
        FAIL() << key << " " << name;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_config);
        EXPECT_EQ(error.where(), key);
        EXPECT_NE(std::string(error.what()).find("it describes a fresh lstm"), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace snug::train
