// SPDX-License-Identifier: Apache-2.0
#include "config/training_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/option.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "io/test_folder.h"

namespace snug {
namespace {

RunConfig from_line(const ConfigOverrides& overrides) {
  return RunConfig::parse("", "run.yaml", overrides);
}
RunConfig from_yaml(const std::string& yaml, const ConfigOverrides& overrides = {}) {
  return RunConfig::parse(yaml, "run.yaml", overrides);
}
std::string said(const RunConfig& config) { return spec::join(config.notices, "\n"); }

/// The package's own list (tools/golden/training_arguments.py). The parser reads from the text.
const std::string& package_text() {
  static const std::string text =
      io::read_all(std::string(SNUG_SOURCE_DIR) + "/tests/golden/training_arguments.json", 1 << 20);
  return text;
}

std::vector<std::string> strings_of(const io::JsonValue& list) {
  std::vector<std::string> items;
  for (int64_t i = 0; i < list.size(); ++i) items.push_back(list.at(i).as_string());
  return items;
}

TEST(TrainingArguments, the_rows_are_the_fields_of_the_package) {
  const io::JsonValue package = io::parse_json(package_text(), "package");
  std::multiset<std::string> wanted, rows;
  for (int64_t i = 0; i < package.at("fields").size(); ++i)
    wanted.insert(package.at("fields").at(i).get_string("name"));
  for (const std::string& name : strings_of(package.at("gone"))) wanted.insert(name);
  for (const config::TrainingArgument& row : config::training_arguments()) {
    rows.insert(std::string(row.name));
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_EQ(row.fate == config::FieldFate::kept, config::find_option(row.name) != nullptr)
        << row.name;
  }
  EXPECT_EQ(rows, wanted);
}

// A default of the package asks for what happens anyway, but for those that cannot.
TEST(TrainingArguments, defaults_of_the_package_are_taken_or_refused_by_name) {
  const io::JsonValue package = io::parse_json(package_text(), "package");
  std::set<std::string> refused;
  for (int64_t i = 0; i < package.at("fields").size(); ++i) {
    const io::JsonValue field = package.at("fields").at(i);
    const std::string name = field.get_string("name");
    try {
      (void)from_yaml(name + ": " + field.get_string("default") + "\n");
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(name), std::string::npos) << error.what();
      EXPECT_FALSE(error.hint().empty()) << name;
      refused.insert(name);
    }
  }
  EXPECT_EQ(refused,
            (std::set<std::string>{"logging_nan_inf_filter", "train_sampling_strategy",
                                   "restore_callback_states_from_checkpoint", "save_total_limit"}));
}

TEST(TrainingArguments, no_value_of_any_field_is_without_effect_in_silence) {
  const char* values[] = {"true", "False", "none", "",      "7",    "0",      "0.5", "-1",
                          "no",   "epoch", "best", "steps", "auto", "{a: 1}", "x y", "[]"};
  for (const config::TrainingArgument& row : config::training_arguments()) {
    const std::string name(row.name);
    for (const char* value : values) {
      try {
        const RunConfig config = from_line({{name, value}});
        const bool is_set = config.source_of(name) == ConfigSource::command_line;
        EXPECT_TRUE(is_set || said(config).find(name) != std::string::npos) << name << " " << value;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_config);
        EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
        EXPECT_FALSE(error.hint().empty()) << error.what();
      }
    }
  }
}

TEST(TrainingArguments, every_optimizer_and_schedule_is_taken_or_refused) {
  std::set<std::string> taken = {"adamw_torch", "adamw_torch_fused", "adafactor",           "sgd",
                                 "adagrad",     "rmsprop",           "constant_with_warmup"};
  for (const OptionInfo& option : config_options()) {
    if (option.name == "lr_scheduler_type")
      taken.insert(option.allowed.begin(), option.allowed.end());
  }
  const io::JsonValue package = io::parse_json(package_text(), "package");
  for (const char* key : {"optim", "lr_scheduler_type"}) {
    for (const std::string& value : strings_of(package.at("values").at(key))) {
      if (taken.count(value) != 0) {
        EXPECT_NO_THROW((void)from_line({{key, value}})) << value;
      } else {
        EXPECT_ERROR((void)from_line({{key, value}}), "'" + value + "' is not allowed");
        EXPECT_ERROR((void)from_line({{key, value}}), "are not built");
      }
    }
  }
}

TEST(TrainingArguments, fields_are_turned_into_keys_and_that_is_said) {
  const struct {
    ConfigOverrides given;
    const char* key;
    const char* value;
    const char* said;
  } cases[] = {
      {{{"per_device_train_batch_size", "4"}, {"gradient_accumulation_steps", "6"}},
       "train_batch_size",
       "24",
       "per_device_train_batch_size 4 x gradient_accumulation_steps 6: train_batch_size 24; Snug "
       "picks the split"},
      {{{"per_device_train_batch_size", "4"}},
       "train_batch_size",
       "4",
       "per_device_train_batch_size 4: train_batch_size 4"},
      {{{"per-gpu-train-batch-size", "5"}}, "train_batch_size", "5", "per_gpu_train_batch_size 5"},
      {{{"gradient_accumulation_steps", "4"}},
       "train_batch_size",
       "32",
       "gradient_accumulation_steps 4 x per_device_train_batch_size 8, Hugging Face's default"},
      {{{"gradient_accumulation_steps", "4"}, {"train_batch_size", "64"}},
       "micro_batch_size",
       "16",
       "gradient_accumulation_steps 4 of train_batch_size 64: micro_batch_size 16"},
      {{{"gradient_accumulation_steps", "3"}, {"micro_batch_size", "5"}},
       "train_batch_size",
       "15",
       "gradient_accumulation_steps 3 x micro_batch_size 5: train_batch_size 15"},
      {{{"gradient_accumulation_steps", "2"},
        {"micro_batch_size", "8"},
        {"train_batch_size", "16"}},
       "micro_batch_size",
       "8",
       "micro_batch_size 8"},
      {{{"per_device_eval_batch_size", "3"}}, "eval_batch_size", "3", "eval_batch_size 3"},
      {{{"per_gpu_eval_batch_size", "3"}}, "eval_batch_size", "3", "eval_batch_size 3"},
      {{{"gradient_checkpointing", std::nullopt}},
       "recompute",
       "all",
       "gradient_checkpointing true: recompute all"},
      {{{"activation_checkpointing", "True"}}, "recompute", "all", "recompute all"},
      {{{"gradient_checkpointing", "False"}}, "recompute", "none", "recompute none"},
      {{{"warmup_steps", "0.1"}}, "warmup_ratio", "0.1", "warmup_steps 0.1: warmup_ratio 0.1"},
      {{{"eval_strategy", "steps"}, {"logging_steps", "9"}},
       "eval_steps",
       "9",
       "eval_strategy steps: eval_steps 9"},
      {{{"eval_strategy", "steps"}, {"eval_steps", "7"}}, "eval_steps", "7", "eval_steps 7"},
      {{{"evaluation_strategy", "epoch"}}, "eval_steps", "0", "evaluation_strategy epoch"},
      {{{"eval_strategy", "no"}}, "validation_split", "0", "eval_strategy no: validation_split 0"},
      {{{"evaluate_during_training", std::nullopt}}, "eval_steps", "500", "eval_steps 500"},
      {{{"save_strategy", "no"}}, "save_steps", "0", "save_strategy no: save_steps 0"},
      {{{"save_strategy", "best"}}, "save_steps", "0", "save_strategy best: save_steps 0"},
      {{{"save_strategy", "steps"}, {"save_steps", "3"}}, "save_steps", "3", "save_steps 3"},
      {{{"resume_from_checkpoint", "True"}}, "resume", "true", "resume true"},
      {{{"adafactor", "True"}}, "optim", "adafactor", "adafactor True: optim adafactor"},
      {{{"optim", "adamw_hf"}}, "optim", "adamw", ""},
      {{{"metric_for_best_model", "None"}}, "metric_for_best_model", "loss", ""},
      {{{"auto_find_batch_size", "True"}},
       "train_batch_size",
       "32",
       "auto_find_batch_size True is what happens anyway: the planner finds the split that fits"},
      {{{"tf32", "False"}},
       "optim",
       "adamw",
       "tf32 False is what happens anyway: a float32 product is computed as one"},
  };
  for (const auto& each : cases) {
    const RunConfig config = from_line(each.given);
    EXPECT_EQ(config.get(each.key), each.value) << each.given.front().first;
    EXPECT_NE(said(config).find(each.said), std::string::npos) << said(config);
    EXPECT_EQ(RunConfig::parse(config.to_yaml(), "dump"), config);
  }
}

TEST(TrainingArguments, contradictions_and_other_values_are_refused) {
  const std::pair<ConfigOverrides, const char*> cases[] = {
      {{{"per_device_train_batch_size", "8"}, {"train_batch_size", "32"}},
       "[--per_device_train_batch_size] per_device_train_batch_size 8 contradicts "
       "train_batch_size 32"},
      {{{"per_device_train_batch_size", "8"},
        {"gradient_accumulation_steps", "2"},
        {"train_batch_size", "32"}},
       "8 x gradient_accumulation_steps 2 contradicts train_batch_size 32"},
      {{{"gradient_accumulation_steps", "3"}, {"train_batch_size", "32"}},
       "gradient_accumulation_steps 3 does not divide train_batch_size 32"},
      {{{"gradient_accumulation_steps", "2"},
        {"train_batch_size", "32"},
        {"micro_batch_size", "8"}},
       "gradient_accumulation_steps 2 of train_batch_size 32 contradicts micro_batch_size 8"},
      {{{"per_device_train_batch_size", "8"}, {"per_gpu_train_batch_size", "4"}},
       "per_gpu_train_batch_size 4 contradicts per_device_train_batch_size 8"},
      {{{"per_device_train_batch_size", "0"}}, "'0' is no number from 1 to"},
      {{{"per_device_train_batch_size", "1000000"}, {"gradient_accumulation_steps", "1000000"}},
       "rows"},
      {{{"per_device_train_batch_size", std::nullopt}}, "a value is missing"},
      {{{"gradient_checkpointing", "true"}, {"recompute", "sqrt"}}, "contradicts recompute sqrt"},
      {{{"gradient_checkpointing", "some"}}, "gradient_checkpointing: 'some' is refused"},
      {{{"tf32", std::nullopt}},
       "tf32: 'true' is refused: a float32 product is computed as one\nhint: leave"},
      {{{"deepspeed", "ds.json"}}, "hint: give memory"},
      {{{"fsdp", "full_shard"}}, "one process computes on the CPU"},
      {{{"report_to", "wandb"}}, "nothing is sent anywhere"},
      {{{"report_to", "all"}}, "'all' is not allowed"},
      {{{"push_to_hub", std::nullopt}}, "nothing is sent anywhere"},
      {{{"save_strategy", "epoch"}}, "hint: epoch is not built: give save_steps"},
      {{{"save_strategy", "no"}, {"save_steps", "50"}}, "save_strategy no contradicts save_steps"},
      {{{"eval_strategy", "epoch"}, {"eval_steps", "5"}}, "contradicts eval_steps 5"},
      {{{"eval_strategy", "no"}, {"eval_steps", "5"}}, "contradicts eval_steps 5"},
      {{{"eval_strategy", "no"}, {"validation_file", "v.jsonl"}}, "contradicts validation_file"},
      {{{"eval_strategy", "often"}}, "eval_strategy: 'often' is refused"},
      {{{"evaluate_during_training", "true"}, {"eval_strategy", "no"}}, "the same thing twice"},
      {{{"logging_steps", "0.1"}}, "a share of the run is not taken"},
      {{{"save_total_limit", "None"}}, "give a number; 0 keeps best and last alone"},
      {{{"optim", "lion_32bit"}}, "lion_32bit is lion with adam_beta2: 0.999"},
      {{{"optim", "adamw_bnb_8bit"}}, "adamw_bnb_8bit is adamw with optim_bits: 8"},
      {{{"gradient_checkpointing_kwargs", R"({"every_n_layers": 2})"}}, "hint: give recompute"},
      {{{"resume_from_checkpoint", "out/checkpoint-5"}}, "hint: give resume"},
      {{{"data_seed", "7"}}, "hint: give seed"},
  };
  for (const auto& each : cases) EXPECT_ERROR((void)from_line(each.first), each.second);
  EXPECT_ERROR(throw_unknown_option("--no_remove_unused_columns"),
               "hint: give remove_unused_columns: false");
  EXPECT_ERROR(RunConfig().set("tf32", "true"), "unknown key 'tf32'\nhint: leave it away");
}

TEST(TrainingArguments, the_command_line_wins_over_the_file_under_any_name) {
  const std::string file = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 4\n";
  EXPECT_EQ(from_yaml(file).train_batch_size, 32);
  EXPECT_EQ(from_yaml(file).source_of("train_batch_size"), ConfigSource::file);
  EXPECT_EQ(from_yaml(file, {{"train_batch_size", "6"}}).train_batch_size, 6);
  EXPECT_EQ(from_yaml(file, {{"per_device_train_batch_size", "2"}}).train_batch_size, 8);
  EXPECT_EQ(from_yaml("train_batch_size: 6\n", {{"per_device_train_batch_size", "2"}})
                .get("train_batch_size"),
            "2");
  EXPECT_EQ(from_yaml("gradient_checkpointing: true\n", {{"recompute", "auto"}}).get("recompute"),
            "auto");
  EXPECT_EQ(from_yaml("recompute: sqrt\n", {{"gradient_checkpointing", "true"}}).get("recompute"),
            "all");
  EXPECT_EQ(from_yaml("gradient_checkpointing: true\n", {{"activation_checkpointing", "false"}})
                .get("recompute"),
            "none");
  EXPECT_EQ(from_yaml("tf32: true\n", {{"tf32", "false"}}).notices.size(), 1u);
  EXPECT_EQ(from_yaml("warmup_steps: 0.2\n", {{"warmup_steps", "7"}}).warmup_ratio, 0);
  EXPECT_EQ(from_yaml("warmup_steps: 7\n", {{"warmup_steps", "0.2"}}).warmup_steps, 0);
}

TEST(TrainingArguments, files_may_hold_null_lists_and_mappings) {
  const RunConfig config = from_yaml(
      "deepspeed: null\nreport_to: []\nlr_scheduler_kwargs: {}\neval_steps: ~\n"
      "gradient_checkpointing_kwargs: {use_reentrant: False}\nfsdp: ''\nfsdp_config: {}\n"
      "metric_for_best_model:\n");
  EXPECT_EQ(config.notices.size(), 1u);  // many are one line
  EXPECT_NE(said(config).find("deepspeed none, fsdp ''"), std::string::npos) << said(config);
  EXPECT_EQ(config, RunConfig());
  EXPECT_ERROR((void)from_yaml("\nreport_to: [wandb, tensorboard]\n"),
               "'wandb,tensorboard' is not allowed");
  EXPECT_EQ(from_yaml("report_to: [tensorboard]\n").report_to, "tensorboard");
  EXPECT_ERROR((void)from_yaml("accelerator_config: {split_batches: true}\n"),
               "accelerator_config: '{split_batches: true}' is refused");
  EXPECT_ERROR((void)from_yaml("fp16: true\nfp16: false\n"), "the key 'fp16' stands twice");
  EXPECT_ERROR((void)from_yaml("seed: null\n"), "seed: the value is missing");
}

TEST(TrainingArguments, words_of_the_command_line_are_split_as_those_of_keys) {
  const std::vector<std::string> words = {
      "--fp16", "--gradient-checkpointing", "True", "--report_to", "none", "--no_cuda", "rest"};
  const ConfigArguments split = split_config_arguments(words);
  EXPECT_EQ(split.overrides, (ConfigOverrides{{"fp16", std::nullopt},
                                              {"gradient_checkpointing", "True"},
                                              {"report_to", "none"},
                                              {"no_cuda", std::nullopt}}));
  EXPECT_EQ(split.rest, std::vector<std::string>{"rest"});
}

}  // namespace
}  // namespace snug
