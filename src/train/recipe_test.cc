// SPDX-License-Identifier: Apache-2.0
// From the configuration to the optimizer: which keys it takes, what is refused, what a resumed run
// is compared by; the counts of a state; an update that is skipped.
#include "train/run_recipe.h"

#include <gtest/gtest.h>

#include "compile/compile.h"
#include "compile/value_names.h"
#include "ops/optimizer/optimizers.h"
#include "snug/error.h"
#include "train/state.h"
#include "train/testing.h"

namespace snug::train {
namespace {

RunConfig config_of(const ConfigOverrides& keys) { return RunConfig::parse("", "test", keys); }

void expect_refused(const ConfigOverrides& keys, const std::string& where,
                    const std::string& text) {
  try {
    (void)training_spec(config_of(keys), 0);
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    EXPECT_EQ(error.where(), where);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Recipe, takes_the_keys_of_its_optimizer_and_its_defaults) {
  const compile::Recipe recipe =
      session::resolve(
          training_spec(config_of({{"adam_beta2", "0.98"}, {"weight_decay", "0.1"}}), 0))
          .recipe;
  EXPECT_EQ(*recipe.optimizer.optimizer->name, "adamw");
  EXPECT_EQ(recipe.optimizer.settings.at("beta1"), 0.9);
  EXPECT_EQ(recipe.optimizer.settings.at("beta2"), 0.98);
  EXPECT_EQ(recipe.optimizer.weight_decay, 0.1);
  const optim::Options nesterov =
      optimizer_of(config_of({{"optim", "sgd"}, {"momentum", "0.9"}, {"nesterov", "true"}}));
  EXPECT_EQ(nesterov.settings.at("nesterov"), 1);
}

TEST(Recipe, takes_numbers_below_the_normal_ones) {
  const optim::Options adam =
      optimizer_of(config_of({{"adam_epsilon", "1e-320"}, {"adam_beta1", "1e-310"}}));
  EXPECT_EQ(adam.settings.at("epsilon"), 1e-320);
  EXPECT_EQ(adam.settings.at("beta1"), 1e-310);
  const optim::Options sgd = optimizer_of(
      RunConfig::parse("optim: sgd\nmomentum: 4.9e-324\n", "run.yaml", ConfigOverrides()));
  EXPECT_EQ(sgd.settings.at("momentum"), 4.9e-324);
}

TEST(Recipe, refuses_keys_that_the_optimizer_has_no_use_for) {
  expect_refused({{"momentum", "0.9"}}, "momentum", "adamw has no use for it");
  expect_refused({{"nesterov", std::nullopt}}, "nesterov", "adamw has no use for it");
  expect_refused({{"optim", "sgd"}, {"adam_epsilon", "1e-6"}}, "adam_epsilon",
                 "sgd has no use for it");
  expect_refused({{"optim", "sgd"}, {"nesterov", std::nullopt}}, "optim",
                 "nesterov needs a momentum above 0");
  expect_refused({{"optim", "adagrad"}, {"adam_beta1", "0.9"}}, "adam_beta1",
                 "set optim to one of: adamw, ");
  expect_refused({{"optim", "sgd"}, {"adam_beta1", "0"}}, "adam_beta1", "sgd has no use for it");
  expect_refused({{"optim", "adagrad"}, {"optim_args", "lr_decay=1,lr_decay=2"}}, "optim_args",
                 "lr_decay is given twice");
  (void)optimizer_of(config_of({{"momentum", "0"}, {"nesterov", "false"}}));  // ask for nothing
}

// Checkpoints of versions before "auto" hold a number for every key.
TEST(Recipe, the_default_written_out_is_the_default) {
  const auto same = [](const ConfigOverrides& a, const ConfigOverrides& b) {
    return with_optimizer_values(config_of(a)) == with_optimizer_values(config_of(b));
  };
  EXPECT_TRUE(same({}, {{"adam_beta1", "0.9"},
                        {"adam_beta2", "0.999"},
                        {"adam_epsilon", "1e-08"},
                        {"momentum", "0"}}));
  EXPECT_TRUE(same({{"optim", "sgd"}}, {{"optim", "sgd"}, {"momentum", "0"}}));
  EXPECT_TRUE(same({{"optim", "sgd"}}, {{"optim", "sgd"}, {"adam_beta1", "0.9"}}));
  EXPECT_FALSE(same({}, {{"adam_beta1", "0.8"}}));
  EXPECT_FALSE(same({{"optim", "sgd"}}, {{"optim", "sgd"}, {"momentum", "0.5"}}));
}

TEST(TrainState, older_states_have_one_count_for_all_three) {
  RunState state;
  state.step = 7;
  state.schedule_step = 6;
  state.optimizer_step = 5;
  state.micro_batch = 1;
  state.config_json = "{}";
  std::string text = state.to_json();
  const UpdateCounts counts = RunState::from_json(text, "state").counts();
  EXPECT_EQ(counts.drawn, 7);
  EXPECT_EQ(counts.schedule, 6);
  EXPECT_EQ(counts.optimizer, 5);
  for (const std::string line : {"  \"schedule_step\": 6,\n", "  \"optimizer_step\": 5,\n"}) {
    ASSERT_NE(text.find(line), std::string::npos) << text;
    text.erase(text.find(line), line.size());
  }
  const UpdateCounts older = RunState::from_json(text, "state").counts();
  EXPECT_EQ(older.schedule, 7);
  EXPECT_EQ(older.optimizer, 7);
}

// Every optimizer of the list, in one program and in one with a program for the update.
TEST(Update, is_skipped_as_a_whole_by_one_flag) {
  const auto backend = cpu(1);
  for (const Optimizer* optimizer : optimizers()) {
    for (const int64_t micro_batch : {4, 2}) {
      SCOPED_TRACE(*optimizer->name + " " + std::to_string(micro_batch));
      RunConfig config = TestRun::lstm_config("none", 1.0);
      config.optim = *optimizer->name;
      TestRun run(*backend, config, 4, micro_batch);
      run.initialize_cpu();
      const auto update = [&](float skip) {
        for (int64_t slot = 0; slot < 4; slot += micro_batch) {
          run.feed<float, int32_t, int64_t, uint8_t>(0, slot);
          run.engine->edit<float>(compile::kHyperName)[3] = skip;
          run.engine->run(run.engine->train(0));
        }
        if (run.engine->update() != nullptr) run.engine->run(*run.engine->update());
        return run.bytes();
      };
      const std::string before = update(0);
      EXPECT_EQ(update(1), before);
      EXPECT_NE(update(0), before);
    }
  }
}

}  // namespace
}  // namespace snug::train
