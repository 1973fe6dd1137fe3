// SPDX-License-Identifier: Apache-2.0
#include "config/training_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/foreign_optimizers.h"
#include "config/option.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "io/test_folder.h"

namespace snug::config {
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
  for (const TrainingArgument& row : training_arguments()) {
    rows.insert(std::string(row.name));
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_EQ(row.fate == FieldFate::kept, find_option(row.name) != nullptr) << row.name;
  }
  EXPECT_EQ(rows, wanted);
}

TEST(TrainingArguments, defaults_of_the_package_are_taken) {
  const io::JsonValue package = io::parse_json(package_text(), "package");
  std::set<std::string> refused;
  for (int64_t i = 0; i < package.at("fields").size(); ++i) {
    const io::JsonValue field = package.at("fields").at(i);
    const std::string name = field.get_string("name");
    try {
      (void)from_yaml(name + ": " + field.get_string("default") + "\n");
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      refused.insert(name);
    }
  }
  EXPECT_EQ(refused, std::set<std::string>());
}

// As a dump of them holds them.
TEST(TrainingArguments, defaults_of_the_package_are_taken_together) {
  const io::JsonValue package = io::parse_json(package_text(), "package");
  std::string yaml;
  for (int64_t i = 0; i < package.at("fields").size(); ++i) {
    const io::JsonValue field = package.at("fields").at(i);
    yaml += field.get_string("name") + ": " + field.get_string("default") + "\n";
  }
  const RunConfig config = from_yaml(yaml);
  EXPECT_EQ(config.train_batch_size, 8);
  EXPECT_EQ(config.get("optim"), "adamw");
  EXPECT_EQ(config.get("group_by_length"), "false");
  EXPECT_EQ(config.get("validation_split"), "0");
}

TEST(TrainingArguments, no_value_of_any_field_is_without_effect_in_silence) {
  const char* values[] = {"true", "False", "none", "",      "7",    "0",      "0.5", "-1",
                          "no",   "epoch", "best", "steps", "auto", "{a: 1}", "x y", "[]"};
  for (const TrainingArgument& row : training_arguments()) {
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
  for (const ForeignOptimizer& row : foreign_optimizers()) {
    if (!row.optim.empty()) taken.insert(std::string(row.name));
  }
  const io::JsonValue package = io::parse_json(package_text(), "package");
  std::set<std::string> refused;
  for (const char* key : {"optim", "lr_scheduler_type"}) {
    for (const std::string& value : strings_of(package.at("values").at(key))) {
      if (taken.count(value) != 0) {
        EXPECT_NO_THROW((void)from_line({{key, value}})) << value;
        continue;
      }
      refused.insert(value);
      // Each is known, and says what to give in its place.
      const bool is_schedule = std::string_view(key) == "lr_scheduler_type";
      EXPECT_TRUE(is_schedule || find_foreign_optimizer(value) != nullptr) << value;
      EXPECT_ERROR((void)from_line({{key, value}}), value);
      EXPECT_ERROR((void)from_line({{key, value}}), "hint:");
      EXPECT_ERROR((void)from_line({{key, value}}), "give ");
    }
  }
  EXPECT_EQ(refused, (std::set<std::string>{"adamw_torch_4bit",
                                            "ademamix",
                                            "ademamix_8bit",
                                            "paged_ademamix_32bit",
                                            "paged_ademamix_8bit",
                                            "galore_adamw",
                                            "galore_adamw_8bit",
                                            "galore_adafactor",
                                            "galore_adamw_layerwise",
                                            "galore_adamw_8bit_layerwise",
                                            "galore_adafactor_layerwise",
                                            "lomo",
                                            "adalomo",
                                            "grokadamw",
                                            "schedule_free_radam",
                                            "schedule_free_adamw",
                                            "schedule_free_sgd",
                                            "apollo_adamw",
                                            "apollo_adamw_layerwise",
                                            "stable_adamw",
                                            "reduce_lr_on_plateau",
                                            "greedy"}));
}

TEST(TrainingArguments, names_of_optimizers_are_their_keys) {
  const struct {
    const char* name;
    std::string optim, bits, codec, beta2, said;
  } cases[] = {
      {"adamw_8bit", "adamw", "8", "default", "auto", "Snug's own codes of 8 bits"},
      {"adamw_torch_8bit", "adamw", "8", "default", "auto", "Snug's own codes of 8 bits"},
      {"adamw_bnb_8bit", "adamw", "8", "bnb", "auto", "bitsandbytes' map"},
      {"paged_adamw_8bit", "adamw", "8", "default", "auto", "none is paged"},
      {"paged_adamw_32bit", "adamw", "32", "default", "auto", "none is paged"},
      {"adamw_torch_xla", "adamw", "32", "default", "auto", "optim adamw"},
      {"lion_8bit", "lion", "8", "default", "0.999", "adam_beta2 0.999"},
      {"lion_32bit", "lion", "32", "default", "0.999", "optim lion, optim_bits 32"},
      {"rmsprop_bnb_8bit", "rmsprop", "8", "bnb", "auto", "optim_codec bnb"},
      {"rmsprop_bnb", "rmsprop", "32", "default", "auto", "optim rmsprop"},
  };
  for (const auto& each : cases) {
    const RunConfig config = from_line({{"optim", each.name}});
    EXPECT_EQ(config.optim, each.optim) << each.name;
    EXPECT_EQ(config.get("optim_bits"), each.bits) << each.name;
    EXPECT_EQ(config.get("optim_codec"), each.codec) << each.name;
    EXPECT_EQ(config.get("adam_beta2"), each.beta2) << each.name;
    EXPECT_NE(said(config).find("optim " + std::string(each.name) + ": optim "), std::string::npos);
    EXPECT_NE(said(config).find(each.said), std::string::npos) << said(config);
    EXPECT_EQ(RunConfig::parse(config.to_yaml(), "dump"), config);
  }
  EXPECT_EQ(from_line({{"optim", "lion_8bit"}, {"adam_beta2", "0.9"}}).get("adam_beta2"), "0.9");
  EXPECT_ERROR((void)from_line({{"optim", "adamw_8bit"}, {"optim_bits", "32"}}),
               "optim adamw_8bit contradicts optim_bits 32");
  const RunConfig other = from_yaml("optim: adamw_8bit\n", {{"optim", "sgd"}});
  EXPECT_EQ(other.get("optim_bits"), "32");
  EXPECT_EQ(from_yaml("optim: sgd\n", {{"optim", "adamw_8bit"}}).optim, "adamw");
}

struct Turned {
  ConfigOverrides given;
  const char* key;
  const char* value;
  const char* said;
};

void expect_turned(const std::vector<Turned>& cases) {
  for (const auto& each : cases) {
    const RunConfig config = from_line(each.given);
    EXPECT_EQ(config.get(each.key), each.value) << each.given.front().first << ": " << said(config);
    EXPECT_NE(said(config).find(each.said), std::string::npos) << said(config);
    EXPECT_EQ(RunConfig::parse(config.to_yaml(), "dump"), config);
    EXPECT_EQ(RunConfig::from_json(config.to_json(), "dump"), config);
  }
}

TEST(TrainingArguments, strategies_leave_numbers_beside_them_without_effect) {
  expect_turned({
      {{{"save_strategy", "epoch"}, {"save_steps", "500"}},
       "save_steps",
       "epoch",
       "save_strategy epoch: save_steps epoch; save_steps 500 has no meaning beside it"},
      {{{"save_strategy", "no"}, {"save_steps", "50"}},
       "save_steps",
       "0",
       "save_strategy no: save_steps 0; save_steps 50 has no meaning beside it"},
      {{{"logging_strategy", "epoch"}, {"logging_steps", "10"}},
       "logging_steps",
       "epoch",
       "logging_strategy epoch: logging_steps epoch; logging_steps 10 has no meaning"},
      {{{"logging_strategy", "no"}}, "logging_steps", "0", "logging_strategy no: logging_steps 0"},
      {{{"logging_strategy", "steps"}}, "logging_steps", "500", "logging_steps 500"},
      {{{"eval_strategy", "epoch"}, {"eval_steps", "5"}},
       "eval_steps",
       "0",
       "eval_strategy epoch: eval_steps 0; eval_steps 5 has no meaning beside it"},
      {{{"eval_strategy", "no"}, {"eval_steps", "5"}},
       "validation_split",
       "0",
       "eval_strategy no: eval_steps 5 has no meaning beside it"},
      {{{"eval_strategy", "no"}, {"validation_file", "v.jsonl"}},
       "eval_steps",
       "end",
       "eval_strategy no: eval_steps end"},
      {{{"eval_strategy", "no"}, {"validation_split", "0.1"}},
       "eval_steps",
       "end",
       "eval_strategy no: eval_steps end"},
      {{{"eval_strategy", "steps"}, {"logging_steps", "0.1"}},
       "eval_steps",
       "0.1",
       "eval_steps 0.1"},
      {{{"eval_strategy", "steps"}, {"eval_steps", "None"}}, "eval_steps", "500", "eval_steps 500"},
      {{{"eval_strategy", "steps"}, {"logging_strategy", "no"}, {"logging_steps", "7"}},
       "eval_steps",
       "7",
       "eval_strategy steps: eval_steps 7"},
  });
  const RunConfig stronger = from_yaml("save_strategy: epoch\n", {{"save_steps", "4"}});
  EXPECT_EQ(stronger.get("save_steps"), "4");
  EXPECT_EQ(said(stronger), "save_strategy epoch: save_steps 4 of the command line stays");
}

TEST(TrainingArguments, what_has_no_meaning_is_taken_and_said) {
  const RunConfig config = from_line({{"dataloader_num_workers", "4"}, {"run_name", "mine"}});
  EXPECT_EQ(config, RunConfig());
  EXPECT_EQ(said(config),
            "dataloader_num_workers 4 has no meaning here: the training process reads the rows "
            "itself\nrun_name mine has no meaning here: the log is metrics.jsonl in output_dir");
  const RunConfig many = from_yaml(
      "tf32: true\ntorch_compile: true\ndisable_tqdm: true\noverwrite_output_dir: true\n"
      "hub_token: secret\nddp_find_unused_parameters: false\n");
  EXPECT_EQ(said(many),
            "has no meaning here (docs/training-arguments.md): ddp_find_unused_parameters false, "
            "disable_tqdm true, hub_token, overwrite_output_dir true, tf32 true, torch_compile "
            "true");
}

TEST(TrainingArguments, a_constant_rate_with_a_warm_up_says_that_it_rises_first) {
  const ConfigOverrides warm = {{"lr_scheduler_type", "constant"}, {"warmup_ratio", "0.03"}};
  EXPECT_EQ(said(from_line(warm)),
            "lr_scheduler_type constant rises first, as constant_with_warmup does: warmup_ratio "
            "0.03 (0 for none)");
  EXPECT_EQ(said(from_line({{"lr_scheduler_type", "constant_with_warmup"}, warm[1]})), "");
  EXPECT_EQ(said(from_line({{"lr_scheduler_type", "constant"}})), "");
}

TEST(TrainingArguments, fields_are_turned_into_keys_and_that_is_said) {
  expect_turned({
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
      {{{"fp16_opt_level", "O1"}},
       "optim",
       "adamw",
       "fp16_opt_level O1 is what happens anyway: fp16 and bf16 have one way"},
      {{{"report_to", "all"}},
       "report_to",
       "tensorboard",
       "report_to all (the others are not built, and nothing is sent anywhere): report_to "
       "tensorboard"},
      {{{"train_sampling_strategy", "random"}},
       "group_by_length",
       "false",
       "group_by_length false"},
      {{{"restore_callback_states_from_checkpoint", "False"}},
       "early_stopping_patience",
       "0",
       "restore_callback_states_from_checkpoint False is what happens anyway"},
      {{{"save_total_limit", "None"}}, "save_total_limit", "0", "save_total_limit none: 0"},
      {{{"data_seed", "7"}}, "data_seed", "7", ""},
      {{{"logging_first_step", std::nullopt}}, "logging_first_step", "true", ""},
      {{{"logging_steps", "0.1"}}, "logging_steps", "0.1", ""},
  });
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
      {{{"dataloader_drop_last", std::nullopt}},
       "dataloader_drop_last: 'true' is refused: the last batch of an epoch holds the rows that "
       "are "
       "left; with batch norm all batches are whole\nhint: omit it"},
      {{{"deepspeed", "ds.json"}}, "hint: give memory"},
      {{{"fsdp", "full_shard"}}, "one process computes on the CPU"},
      {{{"report_to", "wandb"}}, "nothing is sent anywhere"},
      {{{"push_to_hub", std::nullopt}}, "nothing is sent anywhere"},
      {{{"save_strategy", "often"}}, "save_strategy: 'often' is refused"},
      {{{"logging_strategy", "best"}}, "logging_strategy: 'best' is refused"},
      {{{"train_sampling_strategy", "sequential"}}, "hint: give random or group_by_length"},
      {{{"restore_callback_states_from_checkpoint", "false"}, {"early_stopping_patience", "2"}},
       "'false' is refused: a resumed run goes on counting for early_stopping_patience"},
      {{{"eval_strategy", "often"}}, "eval_strategy: 'often' is refused"},
      {{{"evaluate_during_training", "true"}, {"eval_strategy", "no"}}, "the same thing twice"},
      {{{"logging_steps", "1.5"}}, "'1.5' is no whole number of updates and no share below 1"},
      {{{"save_steps", "-1"}}, "'-1' is no whole number of updates and no share below 1"},
      {{{"eval_steps", "often"}}, "'often' is not a number of updates, a share, epoch or end"},
      {{{"save_total_limit", "-1"}}, "0 keeps best and last only"},
      {{{"optim", "ademamix"}}, "optim ademamix is not built\nhint: give adamw"},
      {{{"gradient_checkpointing_kwargs", R"({"every_n_layers": 2})"}}, "hint: give recompute"},
      {{{"resume_from_checkpoint", "out/checkpoint-5"}}, "hint: give resume"},
  };
  for (const auto& each : cases) EXPECT_ERROR((void)from_line(each.first), each.second);
  EXPECT_ERROR(throw_unknown_option("--no_remove_unused_columns"),
               "hint: give remove_unused_columns: false");
  EXPECT_ERROR(RunConfig().set("tf32", "true"), "unknown key 'tf32'\nhint: omit it");
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
  EXPECT_EQ(said(from_yaml("fp16_opt_level: O2\n", {{"fp16_opt_level", "O1"}})).find("O2"),
            std::string::npos);
  EXPECT_EQ(from_yaml("warmup_steps: 0.2\n", {{"warmup_steps", "7"}}).warmup_ratio, 0);
  EXPECT_EQ(from_yaml("warmup_steps: 7\n", {{"warmup_steps", "0.2"}}).warmup_steps, 0);
}

TEST(TrainingArguments, files_may_hold_null_lists_and_mappings) {
  const RunConfig config = from_yaml(
      "deepspeed: null\nreport_to: []\nlr_scheduler_kwargs: {}\neval_steps: ~\n"
      "gradient_checkpointing_kwargs: {use_reentrant: False}\nfsdp: ''\nfsdp_config: {}\n"
      "metric_for_best_model:\nparallelism_config: null\nneftune_noise_alpha: ~\n");
  EXPECT_EQ(config.notices.size(), 2u);  // many are one line
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
}  // namespace snug::config
