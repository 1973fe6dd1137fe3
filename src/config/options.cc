// SPDX-License-Identifier: Apache-2.0
// Every key of a run: those that a session has too come from the table of TrainSpec (spec/table.h);
// the others are declared here: name, help, unit, field, kind. To add one of these, add its field
// to RunConfig (its initial value is the default) and one entry here, then run the documentation
// test with SNUG_UPDATE_DOCS=1.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "config/option.h"
#include "models/registry.h"
#include "snug/levers.h"
#include "spec/table.h"
#include "tasks/registry.h"

namespace snug::config {
namespace {
using models::ModelFamily;
using namespace spec;  // NOLINT: the kinds, whose names are the words of the table

/// Name and help, the part that every key has.
struct About {
  std::string name;
  std::string help;
  std::string unit = {};
};

Option option_of(const std::string& name, const std::string& help, const std::string& unit,
                 const KindInfo& kind) {
  return {.info = {.name = name,
                   .type = kind.type,
                   .default_value = {},
                   .unit = unit,
                   .range = kind.range,
                   .group = {},
                   .help = help,
                   .allowed = kind.allowed,
                   .names = {},
                   .is_switch = kind.is_switch},
          .form = kind.form,
          .may_be_empty = kind.may_be_empty,
          .set = {},
          .get = {}};
}

template <class T>
Option key(const About& about, T RunConfig::*field, const Kind<T>& kind) {
  Option option = option_of(about.name, about.help, about.unit, kind.info);
  option.set = [field, parse = kind.parse](RunConfig& config, std::string_view text) {
    config.*field = parse(text);
  };
  option.get = [field, print = kind.print](const RunConfig& config) {
    return print(config.*field);
  };
  return option;
}

/// A resumed run may give it another value.
Option may_change(Option option) {
  option.info.resume_rule = ResumeRule::may_change;
  return option;
}

/// A resumed run may name another file with the same rows.
Option same_content(Option option) {
  option.info.resume_rule = ResumeRule::same_content;
  return option;
}

/// Its text is names of files, one or several between commas.
Option files(Option option) {
  option.takes_list = true;
  return option;
}

/// What the families say of a key that only some of them take: "of vgg and resnet: ...".
std::string help_of(std::string_view key) {
  const std::vector<const ModelFamily*> takers = models::families_with_key(key);
  return "of " + models::names_of(takers) + ": " + models::find_key(*takers.front(), key)->help;
}

std::string preset_help() {
  std::string text;
  for (const ModelFamily* family : models::model_families())
    text += *family->info().presets_help + ", ";
  return text;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelFamily* family : models::model_families())
    names.insert(names.end(), family->info().preset_names->begin(),
                 family->info().preset_names->end());
  return names;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names = {"auto"};
  for (const tasks::Task* task : tasks::all_tasks()) names.push_back(*task->name);
  return names;
}

// Hugging Face's names of metrics.
std::vector<std::pair<std::string, std::string>> eval_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& name : tasks::metric_names()) names.emplace_back("eval_" + name, name);
  return names;
}

void add_model(std::vector<Option>& all) {
  all = {
      key({"model", preset_help() + "a folder as Hugging Face's (its weights are loaded), "
                                    "or a config.json (weights are fresh)"},
          &RunConfig::model, text(true)),
      key({"hidden_sizes", help_of("hidden_sizes")}, &RunConfig::hidden_sizes,
          integers(between(1, 1 << 20), false)),
      key({"hidden_size", help_of("hidden_size")}, &RunConfig::hidden_size,
          integer_or_auto(between(1, 1 << 16))),
      key({"num_hidden_layers", help_of("num_hidden_layers")}, &RunConfig::num_hidden_layers,
          integer_or_auto(between(1, 1 << 10))),
      key({"embedding_size", help_of("embedding_size")}, &RunConfig::embedding_size,
          integer_or_auto(between(1, 1 << 20))),
      may_change(
          key({"tokenizer",
               "vocab.txt, tokenizer.json or a folder that holds one; empty: the model's own, or a "
               "vocabulary learned from the training text"},
              &RunConfig::tokenizer, text(true))),
      key({"tokenizer_kind",
           "of a vocabulary learned from the training text: BERT's pieces of words in "
           "lower case, or byte-level pairs or pieces with scores of the text as it is"},
          &RunConfig::tokenizer_kind, choice<TokenizerKind>({"wordpiece", "bpe", "unigram"})),
      key({"vocab_size",
           "upper limit of a learned vocabulary; the vocabulary of a plan without data "
           "and tokenizer",
           "tokens"},
          &RunConfig::vocab_size, integer(between(8, 1 << 24))),
      key({"image_size", help_of("image_size"), "pixels"}, &RunConfig::image_size,
          integer_or_auto(between(1, 1 << 14))),
      key({"stage_blocks", help_of("stage_blocks")}, &RunConfig::stage_blocks,
          integers(between(1, 1 << 20), true)),
      key({"num_labels",
           "labels of the model, at least those of the data; of the task regression the number of "
           "targets; auto: those of the data or of a trained head, without data the model's own"},
          &RunConfig::num_labels, integer_or_auto(between(1, kMaxLabels))),
      key({"fresh_head",
           "replaces the trained classifier of a model folder by a new one for the labels "
           "of the data; false: labels of data and model must match"},
          &RunConfig::fresh_head, flag()),
      key({"hidden_dropout_prob", "dropout of embeddings and hidden states; auto: the model's own"},
          &RunConfig::hidden_dropout_prob, number_or_auto(below_one())),
      key({"attention_probs_dropout_prob", "dropout of attention weights; auto: the model's own"},
          &RunConfig::attention_probs_dropout_prob, number_or_auto(below_one())),
      key({"pooling",
           "how the tokens of a text become the vector that the classifier reads: the "
           "first of them, their mean or maximum, or their mean by learned attention "
           "(docs/heads.md); auto: the model's own head"},
          &RunConfig::pooling, word({"auto", "first", "mean", "max", "attention"})),
      key({"pooling_layers",
           "how many of the last layers' hidden states the classifier reads, "
           "side by side; auto: the model's own",
           "layers"},
          &RunConfig::pooling_layers, integer_or_auto(between(1, 1 << 10))),
      key({"multi_sample_dropout",
           "dropout masks before the classifier, of whose logits the mean is "
           "trained; auto: the model's own"},
          &RunConfig::multi_sample_dropout, integer_or_auto(between(1, 64))),
      key({"reinit_layers",
           "so many of the last layers of a model folder begin with fresh weights "
           "(docs/heads.md)",
           "layers"},
          &RunConfig::reinit_layers, integer(between(0, 1 << 10))),
      key({"resize_embeddings",
           "adds rows to the word embeddings of a model folder for tokens that only the "
           "tokenizer has, each the mean of the rows that are there"},
          &RunConfig::resize_embeddings, flag()),
      key({"lora_adapter",
           "a folder of adapters as PEFT's, to begin with (best/, last/ and those of PEFT "
           "are); it says what `lora` says otherwise"},
          &RunConfig::lora_adapter, text(true)),
  };
}

void add_data(std::vector<Option>& all) {
  all = {
      key({"task",
           "what the model is trained for; auto: a trained model's own, else what the labels "
           "look like (docs/tasks.md)"},
          &RunConfig::task, word(task_names(), {})),
      key({"regression_loss", "of the task regression: mean squared error, or smooth L1"},
          &RunConfig::regression_loss, word({"mse", "smooth_l1"}, {})),
      may_change(
          key({"threshold", "of the task multi_label: the score from which on a row has a label"},
              &RunConfig::threshold, number(between(0, 1)))),
      may_change(key(
          {"span_scheme",
           "of the task token_classification: how labels write spans; auto: as their letters, and "
           "the rows of an evaluation, say (docs/tasks.md)"},
          &RunConfig::span_scheme,
          word({"auto", "IOB1", "IOB2", "BIOES", "BILOU"}, {{"IOBES", "BIOES"}}))),
      key({"class_weights",
           "how much a row of each class counts in the loss, whose mean is weighted: "
           "balanced (rows / (classes x rows of the class)), or a number a class in the "
           "order of the labels' ids, or LABEL=NUMBER for each; empty: all the same "
           "(docs/heads.md)"},
          &RunConfig::class_weights, texts()),
      key({"label_order",
           "every label once, in the order of the ids that a fresh head gives them, "
           "separated by commas: what qwk takes for steps (low,medium,high), and the "
           "names of the places of lists of 0 and 1; empty: as numbers where all are "
           "numbers, else by their bytes (docs/tasks.md)"},
          &RunConfig::label_order, texts()),
      may_change(key({"f1_of",
                      "the label whose F1 is a metric, f1_of (metric_for_best_model takes it, "
                      "too); empty: none (docs/tasks.md)"},
                     &RunConfig::f1_of, text(true))),
      key({"sampler",
           "which rows an epoch has: all, in an order by chance; or balanced: as many, drawn so "
           "that every class is as likely, with replacement (docs/tasks.md)"},
          &RunConfig::sampler, word({"random", "balanced"})),
      key({"focal_gamma",
           "weighs the loss of a row (a label of multi_label) by (1 - p)^gamma, p the "
           "score of what is right; 0: as it is"},
          &RunConfig::focal_gamma, number(between(0, 100))),
      same_content(files(key(
          {"train_file",
           "training rows: a file, several (a,b), patterns (data/part-*.jsonl), or - for standard "
           "input; the kind follows the suffix: .jsonl, .json, .tsv or .csv, packed .gz, or .arrow "
           "(docs/data.md)"},
          &RunConfig::train_file, text(true)))),
      same_content(files(
          key({"validation_file", "rows for evaluation during training; named as train_file is"},
              &RunConfig::validation_file, text(true)))),
      may_change(
          files(key({"test_file", "rows for the eval and predict verbs; named as train_file is"},
                    &RunConfig::test_file, text(true)))),
      key({"delimiter",
           "what stands between the fields of .csv and .tsv; auto: the comma or the tab, or "
           "of comma, semicolon, tab and bar the first under which the header has "
           "text_column"},
          &RunConfig::delimiter,
          word({"auto", "comma", "semicolon", "tab", "bar"}, {{",", "comma"},
                                                              {";", "semicolon"},
                                                              {"\t", "tab"},
                                                              {"\\t", "tab"},
                                                              {"|", "bar"},
                                                              {"pipe", "bar"}})),
      key({"text_column", "column or field of the text"}, &RunConfig::text_column, text(false)),
      key({"text_pair_column", "column of the second text; empty: none"},
          &RunConfig::text_pair_column, text(true)),
      key({"label_column", "column of the label"}, &RunConfig::label_column, text(false)),
      key({"weight_column",
           "column of the number by which a training row counts in the loss, at least 0; "
           "empty: none"},
          &RunConfig::weight_column, text(true)),
      key({"validation_split",
           "share of the training rows that is held out (by seed) where there is no "
           "validation_file"},
          &RunConfig::validation_split, number(below_one())),
      key({"stratify",
           "the held-out share has rows of every label in the proportion that all rows "
           "have, and every label keeps a row to train on; false: rows by seed only"},
          &RunConfig::stratify, flag()),
      key({"max_seq_length", "longer texts are what overlong says, and counted", "tokens"},
          &RunConfig::max_seq_length, integer(between(1, 1 << 20))),
      key({"group_by_length",
           "a batch has rows of alike lengths (within windows of 64 batches, which come in random "
           "order): less padding; false: every batch is a random sample"},
          &RunConfig::group_by_length, flag()),
      key({"overlong",
           "a text of more than max_seq_length tokens: is cut at its end, stops the run, is "
           "left out, is cut at its beginning (truncation_side left of transformers), keeps its "
           "first and last half, or becomes several windows (docs/heads.md)"},
          &RunConfig::overlong, word({"truncate", "error", "drop", "tail", "head_tail", "window"})),
      key({"stride", "tokens that two windows of a text share (overlong: window)", "tokens"},
          &RunConfig::stride, integer(between(0, 1 << 20))),
      key({"bad_rows",
           "what a row that cannot be read does: stop the run, or be skipped and counted"},
          &RunConfig::bad_rows, choice<BadRows>({"stop", "skip"})),
      may_change(key({"cache_dir", "place of the token cache; empty: output_dir"},
                     &RunConfig::cache_dir, text(true))),
  };
}

void add_memory(std::vector<Option>& all) {
  all = {
      may_change(
          key({"eval_batch_size",
               "rows computed at once in evaluation and prediction; auto: what fits", "rows"},
              &RunConfig::eval_batch_size, integer_or_auto(between(1, 1 << 24)))),
      may_change(
          key({"allow_new_split",
               "lets a resumed run take another micro-batch than its checkpoint's when that no "
               "longer fits; results then differ in the order of sums"},
              &RunConfig::allow_new_split, flag())),
      may_change(key(
          {"allow",
           "levers that lead to other weights and that the planner may take, separated by commas: "
           "the fastest combination of them that fits is taken, said and kept on resume "
           "(docs/levers.md); empty: none is ever taken"},
          &RunConfig::allow, words({kLeverWords.begin(), kLeverWords.end()}))),
  };
}

void add_training(std::vector<Option>& all) {
  all = {
      key({"adam_beta1",
           "decay of the first moment; auto: the optimizer's own, as the three below"},
          &RunConfig::adam_beta1, number_or_auto(below_one())),
      key({"adam_beta2", "decay of the second moment"}, &RunConfig::adam_beta2,
          number_or_auto(below_one())),
      may_change(key({"adam_epsilon", "epsilon of the denominator"}, &RunConfig::adam_epsilon,
                     number_or_auto(above(0)))),
      key({"momentum", "momentum of the gradient or step"}, &RunConfig::momentum,
          number_or_auto(below_one())),
      key({"nesterov", "Nesterov's form of the momentum"}, &RunConfig::nesterov, flag()),
      key({"optim_args",
           "hyper-parameters of the optimizer that have no key here, as name=value, "
           "separated by commas"},
          &RunConfig::optim_args, texts()),
      may_change(
          key({"warmup_ratio", "share of the updates in which the learning rate rises from 0"},
              &RunConfig::warmup_ratio, number(between(0, 1)))),
      may_change(key({"num_train_epochs", "passes over the training rows", "epochs"},
                     &RunConfig::num_train_epochs,
                     number({.low = 0, .high = 1e6, .is_low_open = true}))),
      key({"label_smoothing_factor", "share of the target that is spread over all labels"},
          &RunConfig::label_smoothing_factor, number(below_one())),
      key({"data_seed", "of the order of the training rows; auto: seed"}, &RunConfig::data_seed,
          integer_if_given(between(0, 9007199254740992.0))),
  };
}

void add_output(std::vector<Option>& all) {
  all = {
      may_change(key({"output_dir", "folder of everything a run writes"}, &RunConfig::output_dir,
                     text(true))),
      may_change(
          key({"logging_steps",
               "updates between two lines of metrics.jsonl, or a share of all updates "
               "(below 1, rounded up); epoch: one at the end of every epoch; end: one at the "
               "end of the run",
               "updates"},
              &RunConfig::logging_steps, interval(IntervalUnit::end))),
      may_change(key({"logging_first_step", "a line of metrics.jsonl for the first update, too"},
                     &RunConfig::logging_first_step, flag())),
      key({"eval_steps",
           "updates between two evaluations, or a share of all updates; epoch: at the end of every "
           "epoch; end: at the end of the run only",
           "updates"},
          &RunConfig::eval_steps, interval(IntervalUnit::epoch)),
      may_change(
          key({"save_steps",
               "updates between two checkpoints, or a share of all updates; epoch: one at the end "
               "of every epoch; end: last at the end, best at evaluations only",
               "updates"},
              &RunConfig::save_steps, interval(IntervalUnit::end))),
      may_change(key({"save_total_limit", "checkpoint-N folders kept beside best and last"},
                     &RunConfig::save_total_limit, integer(between(0, 1e6)))),
      may_change(key({"report_to", "tensorboard: event files in output_dir/runs, too"},
                     &RunConfig::report_to, word({"none", "tensorboard"}))),
      key({"metric_for_best_model",
           "what decides best and early stopping, the loss or a metric of the task (eval_ "
           "before the name is accepted)"},
          &RunConfig::metric_for_best_model, word(tasks::metric_names(), eval_names())),
      key({"greater_is_better",
           "direction of metric_for_best_model; auto: as the metric wants, which "
           "may only be repeated"},
          &RunConfig::greater_is_better, flag_or_auto()),
      key({"early_stopping_patience",
           "evaluations without improvement after which the run ends (one whose metric "
           "is undefined "
           "does not count); 0: off",
           "evaluations"},
          &RunConfig::early_stopping_patience, integer(between(0, 1e6))),
      key({"early_stopping_threshold",
           "an improvement of this much or less does not count for "
           "early_stopping_patience; best/ has the best all the same"},
          &RunConfig::early_stopping_threshold, number(at_least(0))),
      may_change(key({"resume",
                      "goes on from the last complete checkpoint in output_dir, or begins where "
                      "there is none"},
                     &RunConfig::resume, flag())),
  };
}

Option option_of(const Field& field) {
  Option option = option_of(field.key, field.help, field.unit, field.kind);
  option.info.resume_rule = field.on_resume;
  return option;
}

// A field of the spec that the configuration has as it is.
template <class T>
Option option_of(const Field& field, T TrainSpec::*inner, T RunConfig::*own) {
  Option option = option_of(field);
  option.set = [&field, inner, own](RunConfig& config, std::string_view text) {
    TrainSpec spec;
    field.set(spec, text);
    config.*own = std::move(spec.*inner);
  };
  option.get = [&field, inner, own](const RunConfig& config) {
    TrainSpec spec;
    spec.*inner = config.*own;
    return field.get(spec);
  };
  return option;
}

// The strategy of RecomputeSetting is empty where the spec's is "auto": a run marks nothing.
Option recompute_option(const Field& field) {
  Option option = option_of(field);
  option.set = [&field](RunConfig& config, std::string_view text) {
    TrainSpec spec;
    field.set(spec, text);
    config.recompute = {spec.recompute == kAuto ? std::string() : spec.recompute};
  };
  option.get = [&field](const RunConfig& config) {
    TrainSpec spec;
    spec.recompute = config.recompute.strategy;
    return field.get(spec);
  };
  return option;
}

// The keys that a session has too, with the place of each.
std::vector<std::pair<HelpPlace, Option>> options_of_spec() {
  std::vector<std::pair<HelpPlace, Option>> all;
  const auto add = [&](const Field& field, Option option) {
    all.emplace_back(field.place, std::move(option));
  };
#define SNUG_TRAIN_KEY(type, name, value, key, ...) \
  add(field_of_key(#key), option_of(field_of_key(#key), &TrainSpec::name, &RunConfig::key));
#include "snug/train_fields.inc"
  add(field_of_key("recompute"), recompute_option(field_of_key("recompute")));
  return all;
}

// Puts the keys of a group that are left behind the key that each names: as often as one finds its
// place, since the one before it may be of the spec, too.
void place(const std::string& group, std::vector<std::pair<HelpPlace, Option>>& left,
           std::vector<Option>& members) {
  const auto is_placed = [&](const auto& each) {
    const auto& [where, option] = each;
    if (where.group != group) return false;
    auto at = members.begin();
    if (!where.after.empty()) {
      at = std::find_if(members.begin(), members.end(), [&, &after = where.after](const auto& one) {
        return one.info.name == after;
      });
      if (at == members.end()) return false;
      ++at;
    }
    members.insert(at, option);
    return true;
  };
  while (std::erase_if(left, is_placed) > 0) {
  }
}

std::vector<Option> make_table() {
  const std::pair<const char*, void (*)(std::vector<Option>&)> groups[] = {
      {"Model", add_model},
      {"Data", add_data},
      {"Memory", add_memory},
      {"Training", add_training},
      {"Output", add_output}};
  const RunConfig defaults;
  std::vector<std::pair<HelpPlace, Option>> left = options_of_spec();
  std::vector<Option> table;
  for (const auto& [group, add] : groups) {
    std::vector<Option> members;
    add(members);
    place(group, left, members);
    for (Option& option : members) {
      option.info.group = group;
      if (option.info.name == "model") option.info.names = preset_names();
      option.info.default_value = option.get(defaults);
      table.push_back(std::move(option));
    }
  }
  SNUG_CHECK(left.empty(), "no place for " + left.front().second.info.name);
  return table;
}

}  // namespace

const std::vector<Option>& option_table() {
  static const std::vector<Option> table = make_table();
  return table;
}

const Option* find_option(std::string_view name) {
  for (const Option& option : option_table()) {
    if (option.info.name == name) return &option;
  }
  return nullptr;
}

}  // namespace snug::config
