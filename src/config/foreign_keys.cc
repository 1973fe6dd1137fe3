// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_keys.h"

#include <utility>

namespace snug::config {
namespace {

constexpr std::string_view kBatch =
    "give train_batch_size (the global batch); Snug picks the split, or micro_batch_size sets it";
constexpr std::string_view kPrecision = "leave it away: Snug computes in float32";
constexpr std::string_view kVerb = "leave it away: the verb says it (snug train, eval, predict)";
constexpr std::string_view kEvaluation =
    "give eval_steps (0: at the end of every epoch); validation_file or validation_split says on "
    "what";

constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
    {"per_device_train_batch_size", kBatch},
    {"per_gpu_train_batch_size", kBatch},
    {"batch_size", kBatch},
    {"per_device_eval_batch_size", "give eval_batch_size"},
    {"per_gpu_eval_batch_size", "give eval_batch_size"},
    {"train_micro_batch_size_per_gpu", "give micro_batch_size"},
    {"gradient_accumulation_steps", "it follows from train_batch_size and micro_batch_size"},
    {"gradient_checkpointing", "give memory: Snug picks what to recompute, or recompute sets it"},
    {"gradient_clipping", "give max_grad_norm"},
    {"resume_from_checkpoint", "give resume: it goes on from the last checkpoint in output_dir"},
    {"overwrite_output_dir", "give resume, or remove the folder"},
    {"model_name_or_path", "give model: a preset or a local folder"},
    {"config_name", "give model: a preset, a local folder or a config.json"},
    {"tokenizer_name", "give tokenizer: a local folder or file"},
    {"train_data", "give train_file"},
    {"dataset_name", "give train_file: a local .jsonl, .tsv or .csv file"},
    {"task_name", "give train_file: a local .jsonl, .tsv or .csv file"},
    {"text_column_name", "give text_column"},
    {"label_column_name", "give label_column"},
    {"max_length", "give max_seq_length"},
    {"model_max_length", "give max_seq_length"},
    {"num_epochs", "give num_train_epochs"},
    {"epochs", "give num_train_epochs"},
    {"lr", "give learning_rate"},
    {"lr_scheduler", "give lr_scheduler_type"},
    {"num_warmup_steps", "give warmup_steps"},
    {"optimizer", "give optim"},
    {"test_size", "give validation_split"},
    {"eval_strategy", kEvaluation},
    {"evaluation_strategy", kEvaluation},
    {"save_strategy", "give save_steps (0: at evaluations and the end only)"},
    {"logging_strategy", "give logging_steps"},
    {"logging_dir", "metrics go to output_dir"},
    {"report_to", "leave it away: metrics go to metrics.jsonl in output_dir"},
    {"load_best_model_at_end", "leave it away: the best weights are in output_dir/best"},
    {"fp16", kPrecision},
    {"bf16", kPrecision},
    {"no_cuda", "leave it away: Snug computes on the CPU"},
    {"use_cpu", "leave it away: Snug computes on the CPU"},
    {"dataloader_num_workers", "give threads"},
    {"num_workers", "give threads"},
    {"do_train", kVerb},
    {"do_eval", kVerb},
    {"do_predict", kVerb},
};

}  // namespace

std::string_view foreign_key_advice(std::string_view key) {
  for (const auto& [foreign, advice] : kKeys) {
    if (key == foreign) return advice;
  }
  return {};
}

}  // namespace snug::config
