// SPDX-License-Identifier: Apache-2.0
#include "spec/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "snug/config.h"
#include "snug/error.h"
#include "snug/interval.h"
#include "snug/levers.h"
#include "snug/session.h"
#include "spec/json.h"

namespace snug::spec {
namespace {

template <class Call>
Error refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    return error;
  }
  ADD_FAILURE() << "nothing was refused";
  return {ErrorCode::internal, "", "", ""};
}

// A value of each key that is not the default.
const std::vector<std::pair<std::string, std::string>> kOthers = {
    {"train_batch_size", "7"},
    {"memory", "4096"},
    {"micro_batch_size", "3"},
    {"allow_batch_norm_split", "true"},
    {"two_pass_clip", "false"},
    {"fusion", "off"},
    {"fusion_overrides", R"([{"match": "a", "level": "off"}])"},
    {"recompute", "all"},
    {"optim", "sgd"},
    {"learning_rate", "0.25"},
    {"weight_decay", "0.5"},
    {"max_grad_norm", "2"},
    {"loss_scale", "dynamic"},
    {"loss_scale_min", "4"},
    {"param_groups", R"([{"match": "a", "learning_rate": 0.125}])"},
    {"layerwise_lr_decay", "0.75"},
    {"optim_bits", "8"},
    {"optim_codec", "bnb"},
    {"optim_bits_overrides", R"([{"match": "a", "bits": 8}])"},
    {"bf16", "true"},
    {"fp16", "true"},
    {"bf16_full_eval", "true"},
    {"fp16_full_eval", "true"},
    {"precision_overrides", R"([{"match": "a", "dtype": "bfloat16"}])"},
    {"freeze", "a,b"},
    {"lora", R"({"match": ["a"], "r": 2, "alpha": 3, "dropout": 0.5})"},
    {"frozen_dtype", "int8"},
    {"weight_dtype", "bf16x8"},
    {"lr_scheduler_type", "cosine"},
    {"lr_scheduler_kwargs", R"({"num_cycles": 1.5})"},
    {"warmup_steps", "5"},
    {"max_steps", "9"},
    {"seed", "1"},
    {"threads", "2"}};

TEST(SpecTable, every_key_is_set_read_back_and_told_apart) {
  std::set<std::string> keys;
  for (const Field& field : fields()) {
    if (!field.key.empty()) keys.insert(field.key);
  }
  TrainSpec all;
  for (const auto& [key, value] : kOthers) {
    TrainSpec one;
    set_key(one, key, value);
    const Field& field = field_of_key(key);
    EXPECT_EQ(field.get(one), value);
    for (const Field& other : fields())
      EXPECT_EQ(other.json(one) == other.json(TrainSpec()), other.name != field.name)
          << key << " " << other.name;
    set_key(all, key, value);
    keys.erase(key);
  }
  EXPECT_TRUE(keys.empty()) << "no other value of " << *keys.begin();

  SessionOptions options;
  set_spec(all, options);
  const TrainSpec again = spec_of(options);
  for (const Field& field : fields()) EXPECT_EQ(field.json(again), field.json(all)) << field.name;
}

TEST(SpecTable, keys_of_a_configuration_become_fields) {
  RunConfig config;
  config.train_batch_size = 7;
  config.allow_batch_norm_split = true;
  config.max_steps = 11;
  const TrainSpec spec = keys_of(config);
  EXPECT_EQ(spec.batch_rows, 7);
  EXPECT_TRUE(spec.allow_coupled_split);
  EXPECT_EQ(spec.max_steps, 11);
  EXPECT_EQ(spec.max_grad_norm, 1);  // the run's default
  EXPECT_EQ(TrainSpec().max_grad_norm, 0);
}

TEST(SpecTable, a_key_that_there_is_not_is_an_error) {
  TrainSpec spec;
  const Error unknown = refusal([&] { set_key(spec, "optim_bit", "8"); });
  EXPECT_EQ(unknown.where(), "optim_bit");
  EXPECT_EQ(unknown.hint(), "did you mean 'optim_bits'?");
  const Error value = refusal([&] { set_key(spec, "optim_bits", "9"); });
  EXPECT_EQ(value.where(), "optim_bits");
  EXPECT_EQ(value.hint(), "allowed: 32, 8");
  EXPECT_EQ(spec.optim_bits, 32);
}

TEST(SpecTable, numbers_out_of_their_range_are_named) {
  const auto refused = [](const auto& change) {
    TrainSpec spec;
    change(spec);
    const Error error = refusal([&] { check_ranges(spec); });
    return error.where() + ": " + error.message() + "; " + error.hint();
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refused([](auto& s) { s.batch_rows = 0; }),
            "batch_rows: 0 is not within [1, 2147483647]; give 1 to 2147483647");
  EXPECT_EQ(refused([](auto& s) { s.learning_rate = -1; }),
            "learning_rate: -1 is not 0 or more; give 0 or more");
  EXPECT_EQ(refused([](auto& s) { s.threads = 1025; }),
            "threads: 1025 is not within [0, 1024]; give 0 for every core");
  EXPECT_EQ(refused([](auto& s) { s.layerwise_lr_decay = 0; }),
            "layerwise_lr_decay: 0 is not within (0, 1]; give 1 for the same rate everywhere");
  for (const double bad : {kNan, kInfinity}) {
    EXPECT_NE(refused([&](auto& s) { s.weight_decay = bad; }).find("weight_decay"),
              std::string::npos);
  }
  EXPECT_NE(refused([](auto& s) { s.max_grad_norm = kNan; }).find("max_grad_norm"),
            std::string::npos);
  TrainSpec unbounded;
  unbounded.max_grad_norm = kInfinity;  // a norm that clips nothing
  unbounded.seed = std::numeric_limits<int64_t>::max();
  check_ranges(unbounded);
}

TEST(SpecTable, levers_are_the_words_that_a_run_may_be_allowed) {
  std::set<std::string> words;
  for (const Field& field : fields()) {
    for (const LeverValue& lever : field.levers) {
      EXPECT_TRUE(field.changes_result) << field.name;
      EXPECT_TRUE(words.insert(lever.word).second) << lever.word;
    }
  }
  EXPECT_EQ(words, std::set<std::string>(kLeverWords.begin(), kLeverWords.end()));
  EXPECT_EQ(lever_word("weight_dtype", "bfloat16"), "bfloat16");
  EXPECT_EQ(lever_word("optim_bits", "8"), "adam8bit");
  EXPECT_EQ(lever_word("optim", "sgd"), "optim");
  EXPECT_EQ(lever_word("frozen_dtype", "int8"), "");
}

// What session.json held before there was a table: older checkpoints resume as long as this stays.
TEST(SpecTable, a_checkpoint_has_the_names_and_values_of_older_ones) {
  const Json older = Json::object(
      {{"batch_rows", 32},
       {"allow_coupled_split", false},
       {"lengths", Json::array()},
       {"optim", "adamw"},
       {"optim_args", Json::object()},
       {"learning_rate", 0.001},
       {"weight_decay", 0.0},
       {"max_grad_norm", 0.0},
       {"loss_scale", "auto"},
       {"loss_scale_min", 0.0},
       {"param_groups", Json::array()},
       {"layerwise_lr_decay", 1.0},
       {"optim_bits", 32},
       {"optim_codec", "default"},
       {"optim_bits_overrides", Json::array()},
       {"bf16", false},
       {"fp16", false},
       {"precision_overrides", Json::array()},
       {"freeze", Json::array()},
       {"frozen_dtype", "float32"},
       {"weight_dtype", "float32"},
       {"lora", {{"match", Json::array()}, {"r", 8}, {"alpha", 8.0}, {"dropout", 0.0}}},
       {"lr_scheduler_type", "constant"},
       {"warmup_steps", 0},
       {"max_steps", 0},
       {"seed", 42}});
  std::set<std::string> saved;
  for (const Field& field : fields()) {
    if (!field.is_saved()) continue;
    saved.insert(field.name);
    if (!older.contains(field.name)) continue;
    EXPECT_EQ(field.json(TrainSpec()).dump(), older[field.name].dump()) << field.name;
  }
  for (const auto& [name, value] : older.items()) EXPECT_EQ(saved.count(name), 1U) << name;
}

TEST(Interval, takes_a_number_of_updates_as_a_configuration_does) {
  Interval interval{.unit = IntervalUnit::share, .count = 0, .part = 0.5};
  interval = 10;
  EXPECT_EQ(interval.updates(100, 7), 10);
  EXPECT_EQ(interval.or_epoch().updates(100, 7), 10);
  interval = 0;
  EXPECT_EQ(interval.updates(100, 7), 0);
  EXPECT_EQ(interval.or_epoch().updates(100, 7), 7);
}

}  // namespace
}  // namespace snug::spec
