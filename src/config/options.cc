// SPDX-License-Identifier: Apache-2.0
// The one declaration of every key of a run: name, help, unit, field, range. To add a key, add its
// field to RunConfig (its initial value is the default) and one entry here, then run the
// documentation test with SNUG_UPDATE_DOCS=1.
#include <utility>

#include "base/limits.h"
#include "config/option_kinds.h"
#include "models/registry.h"
#include "snug/levers.h"
#include "tasks/registry.h"

namespace snug::config {
namespace {

constexpr double kMaxCount = 1e15;  // counts stay exact in double

using models::ModelFamily;

/// What the families say of a key that some of them alone take: "of vgg and resnet: ...".
std::string help_of(std::string_view key) {
  const std::vector<const ModelFamily*> takers = models::families_with_key(key);
  return "of " + models::names_of(takers) + ": " + models::find_key(*takers.front(), key)->help;
}

std::string preset_help() {
  std::string text;
  for (const ModelFamily* family : models::model_families()) text += *family->presets_help + ", ";
  return text;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelFamily* family : models::model_families())
    names.insert(names.end(), family->preset_names->begin(), family->preset_names->end());
  return names;
}

// The list of optimizers (src/ops/ops.cmake).
constexpr const char* kOptimizers[] = {
#define SNUG_OPTIMIZER(word) #word,
#include "optimizers.inc"
#undef SNUG_OPTIMIZER
};

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
      text_option({"model", preset_help() + "a folder as Hugging Face's (its weights are loaded), "
                                            "or a config.json (weights are fresh)"},
                  &RunConfig::model, true),
      integers_option({"hidden_sizes", help_of("hidden_sizes")}, &RunConfig::hidden_sizes,
                      between(1, 1 << 20), false),
      integer_or_auto_option({"hidden_size", help_of("hidden_size")}, &RunConfig::hidden_size,
                             between(1, 1 << 16)),
      integer_or_auto_option({"num_hidden_layers", help_of("num_hidden_layers")},
                             &RunConfig::num_hidden_layers, between(1, 1 << 10)),
      integer_or_auto_option({"embedding_size", help_of("embedding_size")},
                             &RunConfig::embedding_size, between(1, 1 << 20)),
      may_change(text_option(
          {"tokenizer",
           "vocab.txt, tokenizer.json or a folder that holds one; empty: the model's own, or a "
           "vocabulary learned from the training text"},
          &RunConfig::tokenizer, true)),
      choice_option({"tokenizer_kind",
                     "of a vocabulary learned from the training text: BERT's pieces of words in "
                     "lower case, or byte-level pairs or pieces with scores of the text as it is"},
                    &RunConfig::tokenizer_kind, {"wordpiece", "bpe", "unigram"}),
      integer_option({"vocab_size",
                      "upper limit of a learned vocabulary; the vocabulary of a plan without data "
                      "and tokenizer",
                      "tokens"},
                     &RunConfig::vocab_size, between(8, 1 << 24)),
      integer_or_auto_option({"image_size", help_of("image_size"), "pixels"},
                             &RunConfig::image_size, between(1, 1 << 14)),
      integers_option({"stage_blocks", help_of("stage_blocks")}, &RunConfig::stage_blocks,
                      between(1, 1 << 20), true),
      integer_or_auto_option(
          {"num_labels",
           "labels of the model, at least those of the data; of the task regression the number of "
           "targets; auto: those of the data or of a trained head, without data the model's own"},
          &RunConfig::num_labels, between(1, kMaxLabels)),
      switch_option(
          {"fresh_head",
           "replaces the trained classifier of a model folder by a new one for the labels "
           "of the data; false: labels of data and model must match"},
          &RunConfig::fresh_head),
      number_or_auto_option(
          {"hidden_dropout_prob", "dropout of embeddings and hidden states; auto: the model's own"},
          &RunConfig::hidden_dropout_prob, below_one()),
      number_or_auto_option(
          {"attention_probs_dropout_prob", "dropout of attention weights; auto: the model's own"},
          &RunConfig::attention_probs_dropout_prob, below_one()),
      word_option({"pooling",
                   "how the tokens of a text become the vector that the classifier reads: the "
                   "first of them, their mean or maximum, or their mean by learned attention "
                   "(docs/heads.md); auto: the model's own head"},
                  &RunConfig::pooling, {"auto", "first", "mean", "max", "attention"}),
      integer_or_auto_option({"pooling_layers",
                              "how many of the last layers' hidden states the classifier reads, "
                              "side by side; auto: the model's own",
                              "layers"},
                             &RunConfig::pooling_layers, between(1, 1 << 10)),
      integer_or_auto_option({"multi_sample_dropout",
                              "dropout masks before the classifier, of whose logits the mean is "
                              "trained; auto: the model's own"},
                             &RunConfig::multi_sample_dropout, between(1, 64)),
      integer_option({"reinit_layers",
                      "so many of the last layers of a model folder begin with fresh weights "
                      "(docs/heads.md)",
                      "layers"},
                     &RunConfig::reinit_layers, between(0, 1 << 10)),
      switch_option({"resize_embeddings",
                     "adds rows to the word embeddings of a model folder for tokens that only the "
                     "tokenizer has, each the mean of the rows that are there"},
                    &RunConfig::resize_embeddings),
      texts_option({"freeze",
                    "weights that are not trained, separated by commas: name patterns (* matches "
                    "any text), embeddings, first:N (the first N layers, without the embeddings)"},
                   &RunConfig::freeze),
      lora_option(
          {"lora",
           "low-rank adapters are trained in place of the weights (docs/lora.md): match, a name "
           "pattern or a list of them (* matches any text) of weights of linear maps; the rank r "
           "(8); alpha (8), the adapter counts alpha / r; dropout (0) of what it reads"},
          &RunConfig::lora),
      text_option({"lora_adapter",
                   "a folder of adapters as PEFT's, to begin with (best/, last/ and those of PEFT "
                   "are); it says what `lora` says otherwise"},
                  &RunConfig::lora_adapter, true),
      word_option({"frozen_dtype",
                   "how frozen linear maps and tables of embeddings of 4096 elements or more are "
                   "stored: in fewer bits they are decoded in the kernel (docs/lora.md)"},
                  &RunConfig::frozen_dtype, {"float32", "bfloat16", "int8"}),
      word_option({"weight_dtype",
                   "how trained weights of two dimensions and 4096 elements or more are stored: in "
                   "24 or 16 bits an update rounds them stochastically (docs/precision.md)"},
                  &RunConfig::weight_dtype, {"float32", "bf16x8", "bfloat16"}),
  };
}

void add_data(std::vector<Option>& all) {
  all = {
      word_option(
          {"task",
           "what the model is trained for; auto: a trained model's own, else what the labels "
           "look like (docs/tasks.md)"},
          &RunConfig::task, task_names(), {}),
      word_option({"regression_loss", "of the task regression: mean squared error, or smooth L1"},
                  &RunConfig::regression_loss, {"mse", "smooth_l1"}, {}),
      may_change(number_option(
          {"threshold", "of the task multi_label: the score from which on a row has a label"},
          &RunConfig::threshold, between(0, 1))),
      may_change(word_option(
          {"span_scheme",
           "of the task token_classification: how labels write spans; auto: as their letters, and "
           "the rows of an evaluation, say (docs/tasks.md)"},
          &RunConfig::span_scheme, {"auto", "IOB1", "IOB2", "BIOES", "BILOU"},
          {{"IOBES", "BIOES"}})),
      texts_option({"class_weights",
                    "how much a row of each class counts in the loss, whose mean is weighted: "
                    "balanced (rows / (classes x rows of the class)), or a number a class in the "
                    "order of the labels' ids, or LABEL=NUMBER for each; empty: all the same "
                    "(docs/heads.md)"},
                   &RunConfig::class_weights),
      texts_option({"label_order",
                    "every label once, in the order of the ids that a fresh head gives them, "
                    "separated by commas: what qwk takes for steps (low,medium,high), and the "
                    "names of the places of lists of 0 and 1; empty: as numbers where all are "
                    "numbers, else by their bytes (docs/tasks.md)"},
                   &RunConfig::label_order),
      number_option({"focal_gamma",
                     "weighs the loss of a row (a label of multi_label) by (1 - p)^gamma, p the "
                     "score of what is right; 0: as it is"},
                    &RunConfig::focal_gamma, between(0, 100)),
      same_content(text_option(
          {"train_file", "training rows; the kind follows the suffix: .jsonl, .tsv or .csv"},
          &RunConfig::train_file, true)),
      same_content(text_option({"validation_file", "rows for evaluation during training"},
                               &RunConfig::validation_file, true)),
      may_change(text_option({"test_file", "rows for the eval and predict verbs"},
                             &RunConfig::test_file, true)),
      word_option(
          {"delimiter",
           "what stands between the fields of .csv and .tsv; auto: the comma or the tab, or "
           "of comma, semicolon, tab and bar the first under which the header has "
           "text_column"},
          &RunConfig::delimiter, {"auto", "comma", "semicolon", "tab", "bar"},
          {{",", "comma"},
           {";", "semicolon"},
           {"\t", "tab"},
           {"\\t", "tab"},
           {"|", "bar"},
           {"pipe", "bar"}}),
      text_option({"text_column", "column or field of the text"}, &RunConfig::text_column, false),
      text_option({"text_pair_column", "column of the second text; empty: none"},
                  &RunConfig::text_pair_column, true),
      text_option({"label_column", "column of the label"}, &RunConfig::label_column, false),
      text_option({"weight_column",
                   "column of the number by which a training row counts in the loss, at least 0; "
                   "empty: none"},
                  &RunConfig::weight_column, true),
      number_option({"validation_split",
                     "share of the training rows that is held out (by seed) where there is no "
                     "validation_file"},
                    &RunConfig::validation_split, below_one()),
      switch_option({"stratify",
                     "the held-out share has rows of every label in the proportion that all rows "
                     "have, and every label keeps a row to train on; false: rows by seed alone"},
                    &RunConfig::stratify),
      integer_option(
          {"max_seq_length", "longer texts are what overlong says, and counted", "tokens"},
          &RunConfig::max_seq_length, between(1, 1 << 20)),
      switch_option(
          {"group_by_length",
           "a batch has rows of alike lengths (within windows of 64 batches, which come in random "
           "order): less padding; false: every batch is a random sample"},
          &RunConfig::group_by_length),
      word_option(
          {"overlong",
           "a text of more than max_seq_length tokens: is cut at its end, stops the run, is "
           "left out, keeps its first and last half, or becomes several windows "
           "(docs/heads.md)"},
          &RunConfig::overlong, {"truncate", "error", "drop", "head_tail", "window"}),
      integer_option(
          {"stride", "tokens that two windows of a text share (overlong: window)", "tokens"},
          &RunConfig::stride, between(0, 1 << 20)),
      choice_option(
          {"bad_rows",
           "what a row that cannot be read does: stop the run, or be skipped and counted"},
          &RunConfig::bad_rows, {"stop", "skip"}),
      may_change(text_option({"cache_dir", "place of the token cache; empty: output_dir"},
                             &RunConfig::cache_dir, true)),
  };
}

void add_memory(std::vector<Option>& all) {
  all = {
      may_change(memory_option(
          {"memory",
           "the budget of the whole process: an amount, a share of what auto sees, all "
           "but an amount, "
           "or auto (control group limit or available memory)"},
          &RunConfig::memory)),
      may_change(recompute_option(
          {"recompute",
           "what is recomputed in the backward pass: auto follows the budget; the others are the "
           "field's named strategies (docs/planning.md)"},
          &RunConfig::recompute)),
      integer_option({"train_batch_size", "the global batch: rows of one update", "rows"},
                     &RunConfig::train_batch_size, between(1, 1 << 24)),
      may_change(integer_or_auto_option(
          {"micro_batch_size", "rows computed at once; auto: the fastest that fits", "rows"},
          &RunConfig::micro_batch_size, between(1, 1 << 24))),
      may_change(integer_or_auto_option(
          {"eval_batch_size", "rows computed at once in evaluation and prediction; auto: what fits",
           "rows"},
          &RunConfig::eval_batch_size, between(1, 1 << 24))),
      may_change(switch_option(
          {"allow_new_split",
           "lets a resumed run take another micro-batch than its checkpoint's when that no "
           "longer fits; results then differ in the order of sums"},
          &RunConfig::allow_new_split)),
      switch_option(
          {"allow_batch_norm_split",
           "lets a model with batch norm train in micro-batches: each is normalised by its own "
           "statistics, so results differ from those of the whole batch"},
          &RunConfig::allow_batch_norm_split),
      may_change(switch_or_auto_option(
          {"two_pass_clip",
           "runs a batch of one micro-batch twice, first for the norm of its gradients alone, so "
           "that none has to wait for max_grad_norm or a dynamic loss_scale; the result is the "
           "same; auto: where that is the fastest that fits"},
          &RunConfig::two_pass_clip)),
      may_change(words_option(
          {"allow",
           "levers that lead to other weights and that the planner may take, separated by commas: "
           "the fastest combination of them that fits is taken, said and kept on resume "
           "(docs/levers.md); empty: none is ever taken"},
          &RunConfig::allow, {kLeverWords.begin(), kLeverWords.end()})),
      may_change(integer_or_auto_option(
          {"threads",
           "worker threads; auto: every core this process may use, no more than its CPU quota"},
          &RunConfig::threads, between(1, 1024))),
  };
}

void add_training(std::vector<Option>& all) {
  all = {
      word_option(
          {"optim",
           "optimizer (Hugging Face's adamw_torch, adamw_torch_fused and adamw_hf mean adamw)"},
          &RunConfig::optim, {std::begin(kOptimizers), std::end(kOptimizers)},
          {{"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"}, {"adamw_hf", "adamw"}}),
      may_change(number_option({"learning_rate", "highest learning rate"},
                               &RunConfig::learning_rate, at_least(0))),
      may_change(number_option({"weight_decay",
                                "decay of all weights but biases, norms and other vectors; "
                                "docs/optimizers.md says of which kind"},
                               &RunConfig::weight_decay, at_least(0))),
      may_change(groups_option(
          {"param_groups",
           "weights with a learning_rate or weight_decay of their own, by name pattern (match; * "
           "matches any text); the first match wins, its learning_rate is taken as it stands and "
           "its weight_decay for all that it matches, biases too"},
          &RunConfig::param_groups)),
      number_of_option(
          {"optim_bits",
           "bits of an optimizer state that has its weight's size: 8 stores a code an "
           "element and a scale a block of 256; states of fewer than 4096 elements and "
           "of embeddings stay in 32"},
          &RunConfig::optim_bits, {32, 8}),
      word_option(
          {"optim_codec",
           "how 8 bits hold a state: Snug's own floating-point codes, or bitsandbytes' map"},
          &RunConfig::optim_codec, {"default", "bnb"}),
      bits_option(
          {"optim_bits_overrides",
           "weights whose states have bits (32 or 8) of their own, by name pattern (match; * "
           "matches any text); the first match wins"},
          &RunConfig::optim_bits_overrides),
      switch_option({"bf16",
                     "mixed precision: matrix products, convolutions and what lies between them "
                     "are stored and multiplied in bfloat16, sums, weights and losses stay in "
                     "float32 (docs/precision.md)"},
                    &RunConfig::bf16),
      switch_option({"fp16", "the same in float16, which is stored in 16 bits and computed in 32"},
                    &RunConfig::fp16),
      switch_option({"bf16_full_eval", "evaluation and prediction in bfloat16"},
                    &RunConfig::bf16_full_eval),
      switch_option({"fp16_full_eval", "evaluation and prediction in float16"},
                    &RunConfig::fp16_full_eval),
      precisions_option({"precision_overrides",
                         "parts of the network with a dtype (float32, bfloat16 or float16) of "
                         "their own, by pattern of scope or scope and op (match; * matches any "
                         "text); the first match wins"},
                        &RunConfig::precision_overrides),
      may_change(number_option(
          {"layerwise_lr_decay",
           "the learning rate of a layer is this times that of the layer above it; the head has "
           "learning_rate"},
          &RunConfig::layerwise_lr_decay, {.low = 0, .high = 1, .is_low_open = true})),
      number_or_auto_option(
          {"adam_beta1",
           "decay of the first moment; auto: the optimizer's own, as the three below"},
          &RunConfig::adam_beta1, below_one()),
      number_or_auto_option({"adam_beta2", "decay of the second moment"}, &RunConfig::adam_beta2,
                            below_one()),
      may_change(number_or_auto_option({"adam_epsilon", "epsilon of the denominator"},
                                       &RunConfig::adam_epsilon, above(0))),
      number_or_auto_option({"momentum", "momentum of the gradient or step"}, &RunConfig::momentum,
                            below_one()),
      switch_option({"nesterov", "Nesterov's form of the momentum"}, &RunConfig::nesterov),
      texts_option({"optim_args",
                    "hyper-parameters of the optimizer that have no key here, as name=value, "
                    "separated by commas"},
                   &RunConfig::optim_args),
      may_change(number_option(
          {"max_grad_norm", "gradients are scaled down to this global norm; 0: no clipping"},
          &RunConfig::max_grad_norm, at_least(0))),
      may_change(loss_scale_option(
          {"loss_scale",
           "what the loss is multiplied with for the backward pass, and taken out of gradients "
           "before clipping: dynamic begins with 65536, dynamic_paddle with 32768; both skip an "
           "update whose gradients overflow, and fall (docs/optimizers.md); auto: dynamic with "
           "fp16, else none"},
          &RunConfig::loss_scale)),
      may_change(number_option(
          {"loss_scale_min",
           "a dynamic loss_scale falls no lower; an overflow there ends the run; 0: as low "
           "as the kind of scale goes by itself"},
          &RunConfig::loss_scale_min, at_least(0))),
      may_change(
          choice_option({"lr_scheduler_type", "how the learning rate falls after the warm-up"},
                        &RunConfig::lr_scheduler_type, {"linear", "cosine", "constant"},
                        {{"constant_with_warmup", "constant"}})),
      may_change(number_option(
          {"warmup_ratio", "share of the updates in which the learning rate rises from 0"},
          &RunConfig::warmup_ratio, between(0, 1))),
      may_change(integer_option(
          {"warmup_steps", "as warmup_ratio, in updates; above 0 it wins", "updates"},
          &RunConfig::warmup_steps, between(0, kMaxCount))),
      may_change(number_option({"num_train_epochs", "passes over the training rows", "epochs"},
                               &RunConfig::num_train_epochs,
                               {.low = 0, .high = 1e6, .is_low_open = true})),
      may_change(integer_option(
          {"max_steps", "updates; above 0 it wins over num_train_epochs, -1: by epochs", "updates"},
          &RunConfig::max_steps, between(-1, kMaxCount))),
      number_option(
          {"label_smoothing_factor", "share of the target that is spread over all labels"},
          &RunConfig::label_smoothing_factor, below_one()),
      integer_option({"seed", "of weights, dropout, shuffling, split and vocabulary"},
                     &RunConfig::seed, between(0, 9007199254740992.0)),
  };
}

void add_output(std::vector<Option>& all) {
  all = {
      may_change(text_option({"output_dir", "folder of everything a run writes"},
                             &RunConfig::output_dir, true)),
      may_change(
          integer_option({"logging_steps", "updates between two lines of metrics.jsonl", "updates"},
                         &RunConfig::logging_steps, between(1, kMaxCount))),
      integer_option({"eval_steps", "updates between two evaluations; 0: at the end of every epoch",
                      "updates"},
                     &RunConfig::eval_steps, between(0, kMaxCount)),
      may_change(integer_option(
          {"save_steps", "updates between two checkpoints; 0: at evaluations and the end only",
           "updates"},
          &RunConfig::save_steps, between(0, kMaxCount))),
      may_change(
          integer_option({"save_total_limit", "checkpoint-N folders kept beside best and last"},
                         &RunConfig::save_total_limit, between(0, 1e6))),
      may_change(word_option({"report_to", "tensorboard: event files in output_dir/runs, too"},
                             &RunConfig::report_to, {"none", "tensorboard"})),
      word_option({"metric_for_best_model",
                   "what decides best and early stopping, the loss or a metric of the task (eval_ "
                   "before the name is accepted)"},
                  &RunConfig::metric_for_best_model, tasks::metric_names(), eval_names()),
      switch_or_auto_option({"greater_is_better",
                             "direction of metric_for_best_model; auto: as the metric wants, which "
                             "may only be repeated"},
                            &RunConfig::greater_is_better),
      integer_option({"early_stopping_patience",
                      "evaluations without improvement after which the run ends (one whose metric "
                      "is undefined "
                      "does not count); 0: off",
                      "evaluations"},
                     &RunConfig::early_stopping_patience, between(0, 1e6)),
      number_option({"early_stopping_threshold",
                     "an improvement of this much or less does not count for "
                     "early_stopping_patience; best/ has the best all the same"},
                    &RunConfig::early_stopping_threshold, at_least(0)),
      may_change(
          switch_option({"resume",
                         "goes on from the last complete checkpoint in output_dir, or begins where "
                         "there is none"},
                        &RunConfig::resume)),
  };
}

std::vector<Option> make_table() {
  const std::pair<const char*, void (*)(std::vector<Option>&)> groups[] = {
      {"Model", add_model},
      {"Data", add_data},
      {"Memory", add_memory},
      {"Training", add_training},
      {"Output", add_output}};
  const RunConfig defaults;
  std::vector<Option> table;
  for (const auto& [group, add] : groups) {
    std::vector<Option> members;
    add(members);
    for (Option& option : members) {
      option.info.group = group;
      if (option.info.name == "model") option.info.names = preset_names();
      option.info.default_value = option.get(defaults);
      table.push_back(std::move(option));
    }
  }
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
