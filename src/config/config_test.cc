// SPDX-License-Identifier: Apache-2.0
#include "snug/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "config/option.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_folder.h"
#include "models/registry.h"

namespace snug::config {
namespace {

RunConfig from_yaml(const std::string& yaml, const ConfigOverrides& overrides = {}) {
  return RunConfig::parse(yaml, "run.yaml", overrides);
}
RunConfig from_line(const ConfigOverrides& overrides) { return from_yaml("", overrides); }

TEST(RunConfig, defaults_are_those_of_hugging_face_and_deepspeed) {
  const RunConfig config = from_yaml("");
  EXPECT_EQ(config, RunConfig());
  const std::pair<const char*, const char*> wanted[] = {{"learning_rate", "5e-05"},
                                                        {"adam_beta1", "auto"},
                                                        {"adam_beta2", "auto"},
                                                        {"adam_epsilon", "auto"},
                                                        {"max_grad_norm", "1"},
                                                        {"num_train_epochs", "3"},
                                                        {"seed", "42"},
                                                        {"weight_decay", "0"},
                                                        {"max_steps", "-1"},
                                                        {"lr_scheduler_type", "linear"},
                                                        {"warmup_ratio", "0"},
                                                        {"logging_steps", "500"},
                                                        {"save_steps", "500"},
                                                        {"train_batch_size", "32"},
                                                        {"max_seq_length", "128"},
                                                        {"memory", "auto"},
                                                        {"recompute", "auto"},
                                                        {"vocab_size", "30522"},
                                                        {"micro_batch_size", "auto"},
                                                        {"text_column", "text"},
                                                        {"label_column", "label"},
                                                        {"optim", "adamw"},
                                                        {"metric_for_best_model", "loss"},
                                                        {"resume", "false"},
                                                        {"bad_rows", "stop"}};
  for (const auto& [key, text] : wanted) EXPECT_EQ(config.get(key), text) << key;
}

TEST(RunConfig, the_options_are_one_json_object) {
  const io::JsonValue options = io::parse_json(config_options_json(), "options").at("options");
  ASSERT_EQ(options.size(), static_cast<int64_t>(config_options().size()));
  const io::JsonValue model = options.at(int64_t{0});
  EXPECT_EQ(model.get_string("name"), "model");
  EXPECT_GT(model.at("names").size(), 10);
  EXPECT_FALSE(model.get_bool("is_switch"));
}

TEST(RunConfig, every_key_of_the_contract_is_there_once) {
  std::multiset<std::string> names;
  for (const OptionInfo& info : config_options()) {
    names.insert(info.name);
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_FALSE(info.group.empty()) << info.name;
  }
  for (const char* key : {"model",
                          "train_file",
                          "validation_file",
                          "test_file",
                          "text_column",
                          "text_pair_column",
                          "label_column",
                          "validation_split",
                          "tokenizer",
                          "vocab_size",
                          "hidden_sizes",
                          "max_seq_length",
                          "train_batch_size",
                          "micro_batch_size",
                          "memory",
                          "recompute",
                          "freeze",
                          "optim",
                          "learning_rate",
                          "weight_decay",
                          "adam_beta1",
                          "adam_beta2",
                          "adam_epsilon",
                          "max_grad_norm",
                          "lr_scheduler_type",
                          "warmup_ratio",
                          "warmup_steps",
                          "num_train_epochs",
                          "max_steps",
                          "label_smoothing_factor",
                          "seed",
                          "threads",
                          "output_dir",
                          "logging_steps",
                          "eval_steps",
                          "save_steps",
                          "save_total_limit",
                          "metric_for_best_model",
                          "early_stopping_patience",
                          "resume",
                          "pooling",
                          "pooling_layers",
                          "multi_sample_dropout",
                          "class_weights",
                          "weight_column",
                          "focal_gamma",
                          "reinit_layers",
                          "group_by_length",
                          "overlong",
                          "stride",
                          "resize_embeddings",
                          "label_order",
                          "stratify"}) {
    EXPECT_EQ(names.count(key), 1u) << key;
  }
}

TEST(RunConfig, default_then_file_then_command_line_and_last_wins) {
  const RunConfig config = from_yaml(
      "seed: 1\nlearning_rate: 1e-3\nhidden_sizes: [64, 32]\nfreeze: [\"a.*\", b]\nresume: yes\n",
      {{"seed", "2"}, {"train-batch-size", "8"}, {"seed", "3"}});
  EXPECT_EQ(config.seed, 3);
  EXPECT_EQ(config.learning_rate, 1e-3);
  EXPECT_EQ(config.train_batch_size, 8);
  EXPECT_EQ(config.hidden_sizes, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(config.freeze, (std::vector<std::string>{"a.*", "b"}));
  EXPECT_TRUE(config.resume);
  EXPECT_EQ(config.source_of("seed"), ConfigSource::command_line);
  EXPECT_EQ(config.source_of("learning_rate"), ConfigSource::file);
  EXPECT_EQ(config.source_of("adam_beta1"), ConfigSource::default_value);
}

TEST(RunConfig, RECOMPUTE_of_the_environment_counts_where_nothing_else_sets_recompute) {
  const auto with = [](const char* variable, const std::string& yaml = {},
                       const ConfigOverrides& overrides = {}) {
    return RunConfig::parse(yaml, "run.yaml", overrides, variable);
  };
  for (const char* word : {"1", "true", "Yes", "on"}) {
    const RunConfig config = with(word);
    EXPECT_EQ(config.get("recompute"), "all");
    EXPECT_EQ(config.source_of("recompute"), ConfigSource::environment);
    EXPECT_EQ(config.notices, std::vector<std::string>{"RECOMPUTE=" + std::string(word) +
                                                       " in the environment: recompute all"});
  }
  EXPECT_NE(with("1").to_yaml().find("recompute: all  # environment\n"), std::string::npos);
  for (const char* word : {"", "0", "False", "no", "off"}) {
    EXPECT_EQ(with(word), RunConfig());
    EXPECT_TRUE(with(word).notices.empty());
  }
  EXPECT_EQ(with("1", "recompute: auto\n").get("recompute"), "auto");
  EXPECT_EQ(with("1", "recompute: auto\n").notices,
            std::vector<std::string>{
                "RECOMPUTE=1 in the environment is without effect: recompute is auto (file)"});
  EXPECT_EQ(with("1", "", {{"recompute", "sqrt"}}).get("recompute"), "sqrt");
  EXPECT_EQ(with("1", "gradient_checkpointing: false\n").get("recompute"), "none");
  EXPECT_EQ(with("1", "gradient_checkpointing: true\n").notices.size(), 1u);
  for (const char* word : {"2", "all", " 1"})
    EXPECT_ERROR((void)with(word), "bad_config: [RECOMPUTE] '" + std::string(word) +
                                       "' in the environment is neither 1 nor 0\nhint: unset");
}

TEST(RunConfig, values_of_every_kind_are_read) {
  const RunConfig config = from_line({{"memory", "60%"},
                                      {"recompute", "every:4"},
                                      {"optim", "adamw_torch"},
                                      {"metric_for_best_model", "eval_accuracy"},
                                      {"greater_is_better", "true"},
                                      {"hidden_dropout_prob", "0"},
                                      {"freeze", "embeddings.*, *.layer.0.*"},
                                      {"resume", std::nullopt},
                                      {"bad_rows", "skip"},
                                      {"threads", "2"},
                                      {"num_train_epochs", "0.5"},
                                      {"lr_scheduler_type", "constant_with_warmup"}});
  EXPECT_EQ(config.memory, (MemorySpec{.kind = MemorySpec::Kind::percent, .percent = 60}));
  EXPECT_EQ(config.recompute, (RecomputeSetting{.strategy = "every:4"}));
  EXPECT_EQ(config.optim, "adamw");
  EXPECT_EQ(config.metric_for_best_model, "accuracy");
  EXPECT_EQ(config.hidden_dropout_prob, 0.0);
  EXPECT_EQ(config.freeze, (std::vector<std::string>{"embeddings.*", "*.layer.0.*"}));
  EXPECT_TRUE(config.resume);
  EXPECT_EQ(config.bad_rows, BadRows::skip);
  EXPECT_EQ(config.lr_scheduler_type, ScheduleKind::constant);
  EXPECT_TRUE(config.is_greater_better());
  EXPECT_FALSE(RunConfig().is_greater_better());
  EXPECT_EQ(from_line({{"momentum", "0.9"}, {"optim", "sgd"}}).momentum, 0.9);
}

// Each line: key, value, what the error says.
TEST(RunConfig, bad_values_name_key_value_and_what_is_allowed) {
  const char* cases[][3] = {
      {"seed", "abc", "[--seed] seed: 'abc' is not an integer"},
      {"seed", "1.5", "'1.5' is not an integer"},
      {"seed", "-1", "seed: '-1' is out of range\nhint: allowed: >= 0"},
      {"seed", "99999999999999999999", "is above 9007199254740992, the largest value"},
      {"seed", "9223372036854775807",
       "seed: '9223372036854775807' is above 9007199254740992, the largest value\nhint: give a "
       "smaller number"},
      {"max_steps", "1000000000000001", "is above 1000000000000000, the largest value"},
      {"seed", "-1", "'-1' is out of range\nhint: allowed: >= 0"},
      {"learning_rate", "nan", "'nan' is not a finite number"},
      {"learning_rate", "inf", "'inf' is not a finite number"},
      {"learning_rate", "1e999", "is out of the range of numbers here"},
      {"learning_rate", "-1", "'-1' is out of range\nhint: allowed: >= 0"},
      {"learning_rate", "1e-3x", "is not a number"},
      {"learning_rate", "", "learning_rate: the value is empty"},
      {"adam_beta1", "1", "allowed: [0, 1)"},
      {"adam_epsilon", "0", "allowed: > 0"},
      {"loss_scale", "0", "allowed: auto, none, dynamic, dynamic_paddle"},
      {"loss_scale", "Dynamic", "'Dynamic' is not a number"},
      {"train_batch_size", "0", "'0' is out of range"},
      {"micro_batch_size", "0", "or auto"},
      {"optim", "adagrand", "optim: 'adagrand' is not allowed\nhint: allowed: adamw, sgd"},
      {"lr_scheduler_type", "greedy", "allowed: linear, cosine, constant"},
      {"lr_scheduler_kwargs", "[1]",
       "must be an object\nhint: write {\"num_cycles\": 1}, as JSON on the command line"},
      {"lr_scheduler_kwargs", R"({"num_cycles": "x"})", "must be a number"},
      {"recompute", "every:0", "'0' is out of range"},
      {"recompute", "some", "allowed: auto, none, all, sqrt, memory, speed, every:K"},
      {"recompute", "marks:", "is not allowed"},
      {"recompute", "marks:\x81", "not UTF-8"},
      {"recompute", "revolve:x", "'x' is not an integer"},
      {"memory", "lots",
       "memory: 'lots' is not an amount of memory\nhint: write for example 900MiB"},
      {"hidden_sizes", "64,,32", "the list has an empty element"},
      {"hidden_sizes", "64,x", "'x' is not an integer"},
      {"resume", "maybe", "'maybe' is neither true nor false"},
      {"model", "a\nb", "control characters"},
      {"model", "\xff\xfe", "not UTF-8"},
      {"model", "\xed\xa0\x80", "not UTF-8"},
      {"label_column", "", "label_column: the value is empty"},
      {"trian_file", "x",
       "[--trian_file] unknown key 'trian_file'\nhint: did you mean 'train_file'?"},
      {"lr", "2", "unknown key 'lr'\nhint: give learning_rate"},
      {"zzzzzzzz", "2", "the keys are in docs/configuration.md"},
  };
  for (const auto& [key_text, value_text, words] : cases) {
    const std::string key = key_text;
    const std::string value = value_text;
    EXPECT_ERROR((void)from_line({{key, value}}), "bad_config: ");
    EXPECT_ERROR((void)from_line({{key, value}}), words);
  }
  EXPECT_ERROR((void)from_line({{"seed", std::nullopt}}), "seed: a value is missing");
}

TEST(RunConfig, broken_files_name_the_line) {
  const char* cases[][2] = {
      {"seed: 1\nseed: 2\n", "[run.yaml:2] the key 'seed' stands twice, first at run.yaml:1"},
      {"train_batch_size: 1\ntrain-batch-size: 2\n",
       "[run.yaml:2] the key 'train_batch_size' stands twice"},
      {"seed: 1\nsede: 2\n", "[run.yaml:2] unknown key 'sede'\nhint: did you mean 'seed'?"},
      {"\n\nseed: many\n", "[run.yaml:3] seed: 'many' is not an integer"},
      {"seed:\n", "[run.yaml:1] seed: the value is missing"},
      {"seed: {a: 1}\n", "[run.yaml:1] seed: a mapping stands where a value belongs"},
      {"seed: [1]\n", "seed: a list stands where one value belongs"},
      {"hidden_sizes: [[1]]\n", "something other than plain values"},
      {"freeze: [\"a,b\"]\n", "an element holds a comma"},
      {"train:\n  seed: 1\n", "[run.yaml:1] unknown key 'train'"},
      {"seed: 1\n  model: [\n", "[run.yaml:2] broken YAML: "},
      {"- seed\n", "a run configuration is a mapping of keys to values"},
      {"just text\n", "a run configuration is a mapping of keys to values"},
      {"seed: 1\n---\nseed: 2\n", "holds several YAML documents"},
      // The library's parser sees documents without end here.
      {"!\x10map\nmodel:(!!x\n? tokenizer\n: x\n", "YAML"},
      {"[a]: 1\n", "a key must be a plain word"},
      {"<<: {seed: 1}\n", "unknown key '<<'"},
  };
  for (const auto& [yaml_text, words] : cases) {
    const std::string yaml = yaml_text;
    EXPECT_ERROR((void)from_yaml(yaml), "bad_config: [run.yaml");
    EXPECT_ERROR((void)from_yaml(yaml), words);
  }
  EXPECT_ERROR((void)from_yaml(std::string(100000, '[')), "bad_config: [run.yaml");
  EXPECT_ERROR((void)from_yaml(std::string(100000, '{')), "bad_config: [run.yaml");
  EXPECT_ERROR((void)RunConfig::load("/no/such/run.yaml"), "io: [/no/such/run.yaml] cannot read");
  // The parser's document takes hundreds of times the bytes of a text of short items.
  const io::TestFolder folder;
  io::write_file(folder / "run.yaml", "freeze: [" + std::string(66'000, ',') + "]\n");
  EXPECT_ERROR((void)RunConfig::load(folder / "run.yaml"), "are read here");
}

TEST(RunConfig, what_no_key_can_check_alone_is_checked_together) {
  EXPECT_ERROR(
      (void)from_line({{"micro_batch_size", "64"}}),
      "bad_config: [micro_batch_size] micro_batch_size 64 is larger than train_batch_size 32");
  EXPECT_ERROR((void)from_line({{"max_steps", "0"}}), "max_steps 0 would train nothing");
  EXPECT_ERROR((void)from_line({{"greater_is_better", "true"}}),
               "greater_is_better true contradicts metric_for_best_model loss");
  EXPECT_ERROR((void)from_line({{"label_smoothing_factor", "0.1"}, {"focal_gamma", "2"}}),
               "bad_config: [label_smoothing_factor] it is not defined beside focal_gamma");
  EXPECT_ERROR((void)from_line({{"label_smoothing_factor", "0.1"}, {"class_weights", "1,2"}}),
               "it is not defined beside class_weights");
  EXPECT_ERROR((void)from_line({{"label_order", "low,high,low"}}), "'low' is given twice");
  EXPECT_ERROR((void)from_line({{"stratify", "true"}, {"validation_split", "0"}}),
               "no rows are held out");
  EXPECT_ERROR((void)from_line({{"stratify", "true"}, {"validation_file", "v.jsonl"}}),
               "come from validation_file");
  EXPECT_ERROR((void)from_line({{"stride", "4"}}), "bad_config: [stride] there are no windows");
  EXPECT_ERROR((void)from_line({{"overlong", "window"}, {"text_pair_column", "b"}}),
               "bad_config: [overlong] windows of pairs are not defined");
  EXPECT_ERROR((void)from_line({{"overlong", "window"}, {"train_file", "a.jsonl"}}),
               "bad_config: [overlong] validation_split would put windows of one text on both");
  EXPECT_ERROR(RunConfig().require({"seed", "train_file"}),
               "bad_config: [train_file] train_file is needed here and was not given\nhint: give "
               "--train_file VALUE");
  RunConfig config;
  config.train_file = "a.jsonl";
  config.require({"seed", "train_file"});
}

RunConfig unusual() {
  return from_yaml(
      "model: \"a: b # \\\"c\\\" 日本\"\nlearning_rate: 0.1\nadam_epsilon: 3.3333333333333335e-7\n"
      "freeze: [\"*.bias\", \"x: y\"]\nhidden_sizes: [7]\nmemory: -512MiB\nrecompute: "
      "every:3\nseed: 9007199254740992\n"
      "greater_is_better: false\nhidden_dropout_prob: 0.25\nresume: true\nmicro_batch_size: "
      "3\noutput_dir: \"1e5\"\n",
      {{"text_column", "no"}});
}

TEST(RunConfig, groups_are_lists_of_objects_everywhere) {
  const std::string json =
      R"([{"match": "*.bias", "weight_decay": 0}, {"match": "12", "learning_rate": 0.001}])";
  const RunConfig line = from_line({{"param_groups", json}});
  ASSERT_EQ(line.param_groups.size(), 2u);
  EXPECT_EQ(line.param_groups[0].match, "*.bias");
  EXPECT_EQ(line.param_groups[0].weight_decay, 0.0);
  EXPECT_FALSE(line.param_groups[0].learning_rate);
  EXPECT_EQ(line.param_groups[1].learning_rate, 0.001);
  EXPECT_EQ(line.get("param_groups"), json);
  const RunConfig file = from_yaml(
      "param_groups:\n- {match: '*.bias', weight_decay: 0}\n- match: \"12\"\n  learning_rate: "
      "1e-3\n");
  EXPECT_EQ(file, line);
  EXPECT_EQ(RunConfig::parse(line.to_yaml(), "dump"), line) << line.to_yaml();
  EXPECT_EQ(RunConfig::from_json(line.to_json(), "dump"), line) << line.to_json();
  // YAML's numbers are more than JSON's.
  EXPECT_EQ(from_yaml("param_groups:\n- {match: a, learning_rate: .001, weight_decay: 1.}\n")
                .get("param_groups"),
            R"([{"match": "a", "learning_rate": 0.001, "weight_decay": 1}])");
  EXPECT_TRUE(from_yaml("param_groups: []\n").param_groups.empty());
  const char* cases[][2] = {
      {"*.bias", "param_groups: "},
      {R"({"match": "a"})", "must be a list of objects"},
      {R"([{"weight_decay": 0}])", "needs a pattern in \"match\""},
      {R"([{"match": "a"}])", "changes nothing: it has neither learning_rate nor weight_decay"},
      {R"([{"match": "a", "lr": 1}])", "has no key 'lr'"},
      {R"([{"match": "a", "learning_rate": -1}])", "must not be negative"},
  };
  for (const auto& each : cases)
    EXPECT_ERROR((void)from_line({{"param_groups", each[0]}}), each[1]);
  EXPECT_ERROR((void)from_yaml("param_groups: [a, b]\n"), "something other than mappings");
}

TEST(RunConfig, adapters_are_an_object_everywhere) {
  const std::string json =
      R"({"match": ["*.query.weight", "12"], "r": 4, "alpha": 0.5, "dropout": 0.1})";
  const RunConfig line = from_line({{"lora", json}});
  EXPECT_EQ(line.lora, (LoraOptions{{"*.query.weight", "12"}, 4, 0.5, 0.1}));
  EXPECT_EQ(line.get("lora"), json);
  EXPECT_EQ(from_yaml("lora:\n  match: [\"*.query.weight\", '12']\n  r: 4\n  alpha: 0.5\n"
                      "  dropout: 0.1\n"),
            line);
  EXPECT_EQ(RunConfig::parse(line.to_yaml(), "dump"), line) << line.to_yaml();
  EXPECT_EQ(RunConfig::from_json(line.to_json(), "dump"), line) << line.to_json();
  EXPECT_EQ(from_yaml("lora: {match: a}\n").lora, (LoraOptions{{"a"}, 8, 8, 0}));
  EXPECT_FALSE(from_yaml("lora: {}\n").lora.is_on());
  const char* cases[][2] = {
      {"*.query", "lora: "},
      {R"([{"match": "a"}])", "must be an object"},
      {R"({"r": 8})", "match"},
      {R"({"match": []})", "needs a pattern"},
      {R"({"match": ""})", "empty pattern"},
      {R"({"match": "a", "rank": 8})", "has no key 'rank': it is r here"},
      {R"({"match": "a", "lora_alpha": 16, "alpha": 8})", "which are the same"},
      {R"({"match": "a", "use_dora": true})", "has no key 'use_dora'"},
      {R"({"match": "a", "bias": "some"})", "must be none, all or lora_only"},
      {R"({"match": "a", "rank_pattern": {"q": 0}})", "rank_pattern"},
      {R"({"match": "a", "alpha_pattern": {"q": 0}})", "must be above 0"},
      {R"({"match": "a", "alpha_pattern": [1]})", "must be an object of"},
      {R"({"match": "a", "target_modules": ["a"]})", "give one of them"},
      {R"({"target_modules": []})", "needs a name"},
      {R"({"match": "a", "r": 0})", "\"r\""},
      {R"({"match": "a", "alpha": 0})", "must be above 0"},
      {R"({"match": "a", "dropout": 1})", "must be within [0, 1)"}};
  for (const auto& each : cases) EXPECT_ERROR((void)from_line({{"lora", each[0]}}), each[1]);
  EXPECT_ERROR((void)from_yaml("lora: {match: {a: [b]}}\n"), "other than a plain value");
  EXPECT_ERROR((void)from_line({{"lora", R"({"match": "a"})"}, {"lora_adapter", "x"}}),
               "say their rank");
}

// math.ceil(max_steps * share) of transformers' TrainerState.
TEST(RunConfig, how_often_is_a_number_a_share_or_a_word) {
  const struct {
    const char* text;
    int64_t in_10_of_4;  // 10 updates, 4 to an epoch
    const char* saved;   // as save_steps, and as eval_steps
    const char* evaluated;
  } cases[] = {
      {"3", 3, "3", "3"},          {"500.0", 500, "500", "500"}, {"1e3", 1000, "1000", "1000"},
      {"0.25", 3, "0.25", "0.25"}, {"0.1", 1, "0.1", "0.1"},     {"0.01", 1, "0.01", "0.01"},
      {"epoch", 4, "epoch", "0"},  {"end", 0, "0", "end"}};
  for (const auto& each : cases) {
    const RunConfig config = from_line({{"save_steps", each.text}, {"eval_steps", each.text}});
    EXPECT_EQ(config.save_steps.updates(10, 4), each.in_10_of_4) << each.text;
    EXPECT_EQ(config.eval_steps.updates(10, 4), each.in_10_of_4) << each.text;
    EXPECT_EQ(config.get("save_steps"), each.saved);
    EXPECT_EQ(config.get("eval_steps"), each.evaluated);
    EXPECT_EQ(RunConfig::parse(config.to_yaml(), "dump"), config);
    EXPECT_EQ(RunConfig::from_json(config.to_json(), "dump"), config);
  }
  // What 0 has always meant.
  EXPECT_EQ(from_line({{"save_steps", "0"}}).save_steps.updates(10, 4), 0);
  EXPECT_EQ(from_line({{"eval_steps", "0"}}).eval_steps.updates(10, 4), 4);
  for (const char* text : {"-1", "1.5", "nan", "inf", "1e16", "often", "0.5x"})
    EXPECT_ERROR((void)from_line({{"save_steps", text}}), "save_steps: '");
}

TEST(RunConfig, adapters_may_be_written_as_a_lora_config) {
  const RunConfig config = from_yaml(
      "lora:\n  task_type: SEQ_CLS\n  inference_mode: false\n  target_modules: [query, value]\n"
      "  r: 16\n  lora_alpha: 32\n  lora_dropout: 0.1\n  bias: lora_only\n  use_rslora: true\n"
      "  modules_to_save: [pooler]\n  rank_pattern: {'layer.0.*query': 4, value: 2}\n"
      "  alpha_pattern: {value: 1.5}\n  layers_to_transform: null\n");
  EXPECT_EQ(config.lora, (LoraOptions{.r = 16,
                                      .alpha = 32,
                                      .dropout = 0.1,
                                      .target_modules = {"query", "value"},
                                      .rank_pattern = {{"layer.0.*query", 4}, {"value", 2}},
                                      .alpha_pattern = {{"value", 1.5}},
                                      .use_rslora = true,
                                      .bias = LoraBias::lora_only,
                                      .modules_to_save = {"pooler"}}));
  EXPECT_EQ(RunConfig::parse(config.to_yaml(), "dump"), config) << config.to_yaml();
  EXPECT_EQ(RunConfig::from_json(config.to_json(), "dump"), config) << config.to_json();
  const RunConfig all = from_line({{"lora", R"({"target_modules": "all-linear", "r": 4})"}});
  EXPECT_EQ(all.lora, (LoraOptions{.r = 4, .target_expression = "all-linear"}));
  EXPECT_EQ(RunConfig::parse(all.to_yaml(), "dump"), all) << all.to_yaml();
  EXPECT_TRUE(all.lora.is_on());
}

TEST(RunConfig, yaml_and_json_round_trip) {
  for (const RunConfig& config : {RunConfig(), unusual()}) {
    EXPECT_EQ(RunConfig::parse(config.to_yaml(), "dump"), config) << config.to_yaml();
    EXPECT_EQ(RunConfig::from_json(config.to_json(), "dump"), config) << config.to_json();
  }
  EXPECT_NE(unusual(), RunConfig());
  EXPECT_NE(unusual().to_yaml().find("learning_rate: 0.1  # file\n"), std::string::npos);
  EXPECT_NE(unusual().to_yaml().find("text_column: \"no\"  # command line\n"), std::string::npos);
  EXPECT_NE(unusual().to_yaml().find("adam_beta1: auto  # default\n"), std::string::npos);
  const io::JsonValue json = io::parse_json(unusual().to_json(), "dump");
  EXPECT_EQ(json.get_double("learning_rate"), 0.1);
  EXPECT_TRUE(json.get_bool("resume"));
  EXPECT_EQ(json.at("hidden_sizes").at(0).as_int(), 7);
  EXPECT_EQ(json.size(), static_cast<int64_t>(config_options().size()));
  EXPECT_ERROR((void)RunConfig::from_json(R"({"sead": 1})", "c.json"),
               "bad_config: [c.json] unknown key 'sead'");
  EXPECT_ERROR((void)RunConfig::from_json(R"({"seed": {}})", "c.json"),
               "bad_data: [c.json] \"seed\" must be a plain value");
}

// Each single option, set to its own default text and to every allowed word, survives both dumps.
TEST(RunConfig, every_option_reads_what_it_writes) {
  for (const OptionInfo& info : config_options()) {
    RunConfig config;
    if (!info.default_value.empty()) config.set(info.name, info.default_value);
    EXPECT_EQ(config, RunConfig()) << info.name;
    for (std::string word : info.allowed) {
      for (const char* form : {"K", "BYTES", "C"}) {
        if (word.ends_with(std::string(":") + form)) word = word.substr(0, word.find(':')) + ":2";
      }
      config.set(info.name, word);
      EXPECT_EQ(config.get(info.name), word);
      EXPECT_EQ(RunConfig::from_json(config.to_json(), "dump").get(info.name), word);
    }
  }
}

TEST(ConfigArguments, keys_are_taken_and_the_rest_stays) {
  const std::vector<std::string> words = {"train",
                                          "--seed",
                                          "3",
                                          "--json",
                                          "--memory",
                                          "-512MiB",
                                          "--train-batch-size=64",
                                          "--resume",
                                          "--learning_rate",
                                          "--model=a=b",
                                          "--allow-new-split",
                                          "False",
                                          "-c",
                                          "run.yaml",
                                          "--text_pair_column=",
                                          "--",
                                          "--seed"};
  const ConfigArguments split = split_config_arguments(words);
  EXPECT_EQ(split.rest,
            (std::vector<std::string>{"train", "--json", "-c", "run.yaml", "--", "--seed"}));
  const ConfigOverrides wanted = {{"seed", "3"},
                                  {"memory", "-512MiB"},
                                  {"train_batch_size", "64"},
                                  {"resume", std::nullopt},
                                  {"learning_rate", std::nullopt},
                                  {"model", "a=b"},
                                  {"allow_new_split", "False"},
                                  {"text_pair_column", ""}};
  EXPECT_EQ(split.overrides, wanted);
  EXPECT_ERROR(throw_unknown_option("--sead"),
               "bad_config: [--sead] unknown key 'sead'\nhint: did");
  EXPECT_EQ(nearest_config_key("learning-rat"), "learning_rate");
}

TEST(ConfigArguments, an_amount_of_memory_may_be_typed_as_it_is_printed) {
  const std::vector<std::string> words = {"--memory", "61.3", "MiB", "--seed", "3", "B"};
  const ConfigArguments split = split_config_arguments(words);
  EXPECT_EQ(split.overrides, (ConfigOverrides{{"memory", "61.3 MiB"}, {"seed", "3"}}));
  EXPECT_EQ(split.rest, std::vector<std::string>{"B"});
  EXPECT_EQ(from_line(split.overrides).memory.bytes, 64277708);
}

TEST(Options, every_key_of_a_model_family_is_a_key) {
  for (const models::ModelFamily* family : models::model_families()) {
    for (const models::ModelKey& key : *family->info().keys)
      EXPECT_NE(find_option(key.name), nullptr) << key.name;
  }
}

TEST(ForeignKeys, advice_is_the_same_in_files_and_on_the_command_line) {
  const char* cases[][2] = {
      {"train_micro_batch_size_per_gpu", "give micro_batch_size"},
      {"batch_size", "give train_batch_size (the global batch)"},
      {"label_smoothing", "give label_smoothing_factor"},
      {"target_modules", "it stands in lora"},
      {"beta1", "give adam_beta1"},
      {"beta2", "give adam_beta2"},
      {"dropout", "give hidden_dropout_prob"},
      {"devices", "omit it"},
      {"strategy", "omit it"},
      {"model_name_or_path", "give model"},
      {"num_epochs", "give num_train_epochs"},
      {"n_epochs", "give num_train_epochs"},
      {"max_epochs", "give num_train_epochs"},
      {"steps", "give max_steps"},
      {"accumulate_grad_batches", "give train_batch_size (the global batch)"},
      {"gradient_clip_val", "give max_grad_norm"},
      {"precision", "give bf16 or fp16"},
      {"mixed_precision", "give bf16 or fp16"},
      {"lora_alpha", "it stands in lora"},
      {"load_in_8bit", "give frozen_dtype: int8"},
      {"device", "omit it"},
      {"scheduler", "give lr_scheduler_type"},
      {"warmup", "give warmup_steps"},
      {"eps", "give adam_epsilon"},
      {"betas", "give adam_beta1 and adam_beta2"},
  };
  for (const auto& each : cases) {
    const std::string_view key = each[0], advice = each[1];
    std::string hyphens(key);
    std::replace(hyphens.begin(), hyphens.end(), '_', '-');
    EXPECT_ERROR((void)from_yaml(std::string(key) + ": 1\n"), advice);
    EXPECT_ERROR(throw_unknown_option("--" + std::string(key)), advice);
    EXPECT_ERROR(throw_unknown_option("--" + std::string(key) + "=8"), advice);
    EXPECT_ERROR(throw_unknown_option("--" + hyphens), advice);
  }
}

TEST(ConfigHelp, every_option_stands_there_and_lines_fit) {
  const std::string help = config_help(80);
  for (const OptionInfo& info : config_options())
    EXPECT_NE(help.find("  --" + info.name), std::string::npos);
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 80u) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(Resume_rules, what_decides_the_mathematics_is_fixed) {
  std::map<std::string, ResumeRule> rules;
  for (const OptionInfo& info : config_options()) rules[info.name] = info.resume_rule;
  for (const char* key : {"learning_rate",
                          "param_groups",
                          "layerwise_lr_decay",
                          "adam_epsilon",
                          "weight_decay",
                          "max_grad_norm",
                          "warmup_steps",
                          "warmup_ratio",
                          "lr_scheduler_type",
                          "lr_scheduler_kwargs",
                          "max_steps",
                          "num_train_epochs",
                          "logging_steps",
                          "save_steps",
                          "loss_scale",
                          "loss_scale_min",
                          "save_total_limit",
                          "report_to",
                          "memory",
                          "fusion",
                          "fusion_overrides",
                          "threads"})
    EXPECT_EQ(rules.at(key), ResumeRule::may_change) << key;
  for (const char* key : {"train_file", "validation_file"})
    EXPECT_EQ(rules.at(key), ResumeRule::same_content) << key;
  for (const char* key :
       {"model", "seed", "train_batch_size", "optim", "momentum", "nesterov", "optim_args",
        "adam_beta1", "max_seq_length", "freeze", "label_smoothing_factor"})
    EXPECT_EQ(rules.at(key), ResumeRule::fixed) << key;
}

TEST(ConfigDocs, the_pages_are_those_of_the_tables) {
  for (const auto& [name, text] :
       {std::pair<const char*, std::string>{"configuration.md", config_markdown()},
        {"training-arguments.md", training_arguments_markdown()}}) {
    const std::string path = std::string(SNUG_SOURCE_DIR) + "/docs/" + name;
    if (std::getenv("SNUG_UPDATE_DOCS") != nullptr) io::replace_file(path, text);
    EXPECT_EQ(io::read_all(path, 1 << 20), text)
        << path
        << " is stale; renew it with SNUG_UPDATE_DOCS=1 build/release/src/config/config_test";
  }
}

}  // namespace
}  // namespace snug::config
