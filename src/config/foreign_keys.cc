// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_keys.h"

#include <utility>

namespace snug::config {
namespace {

constexpr std::string_view kBatch =
    "give train_batch_size (the global batch); Snug picks the split, or micro_batch_size sets it";
constexpr std::string_view kPrecision = "give bf16 or fp16 (docs/precision.md)";
constexpr std::string_view kLora = "it stands in lora (docs/lora.md)";
constexpr std::string_view kDevice = "omit it: Snug computes on the CPU";
constexpr std::string_view kFrozen = "give frozen_dtype: int8 (docs/lora.md)";
constexpr std::pair<std::string_view, std::string_view> kForeignKeys[] = {
    {"batch_size", kBatch},
    {"train_micro_batch_size_per_gpu", "give micro_batch_size"},
    {"gradient_clipping", "give max_grad_norm"},
    {"model_name_or_path", "give model: a preset or a local folder"},
    {"config_name", "give model: a preset, a local folder or a config.json"},
    {"tokenizer_name", "give tokenizer: a local folder or file"},
    {"train_data", "give train_file"},
    {"dataset_name", "give train_file: local files (docs/data.md)"},
    {"task_name", "give train_file: local files (docs/data.md)"},
    {"text_column_name", "give text_column"},
    {"label_column_name", "give label_column"},
    {"max_length", "give max_seq_length"},
    {"model_max_length", "give max_seq_length"},
    {"truncation_side", "give overlong: tail for left (the last tokens stay), truncate for right"},
    {"num_epochs", "give num_train_epochs"},
    {"epochs", "give num_train_epochs"},
    {"n_epochs", "give num_train_epochs"},
    {"max_epochs", "give num_train_epochs"},
    {"steps", "give max_steps"},
    {"accumulate_grad_batches", kBatch},
    {"gradient_clip_val", "give max_grad_norm"},
    {"precision", kPrecision},
    {"mixed_precision", kPrecision},
    {"lora_r", kLora},
    {"lora_alpha", kLora},
    {"lora_dropout", kLora},
    {"target_modules", kLora},
    {"load_in_8bit", kFrozen},
    {"device", kDevice},
    {"devices", kDevice},
    {"strategy", "omit it: Snug trains in one process"},
    {"label_smoothing", "give label_smoothing_factor"},
    {"beta1", "give adam_beta1"},
    {"beta2", "give adam_beta2"},
    {"dropout", "give hidden_dropout_prob or attention_probs_dropout_prob"},
    {"lr", "give learning_rate"},
    {"lr_scheduler", "give lr_scheduler_type"},
    {"scheduler", "give lr_scheduler_type"},
    {"num_warmup_steps", "give warmup_steps"},
    {"warmup", "give warmup_steps, a number of updates, or warmup_ratio, a share of the run"},
    {"eps", "give adam_epsilon"},
    {"betas", "give adam_beta1 and adam_beta2"},
    {"optimizer", "give optim"},
    {"test_size", "give validation_split"},
    {"num_workers", "give threads"},
};

}  // namespace

std::string_view foreign_key_advice(std::string_view key) {
  for (const auto& [foreign, advice] : kForeignKeys) {
    if (key == foreign) return advice;
  }
  return {};
}

}  // namespace snug::config
