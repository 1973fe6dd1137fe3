// SPDX-License-Identifier: Apache-2.0
// The rows. tests/golden/training_arguments.json has the fields of the package itself; a test holds
// the rows to it.
#include <algorithm>
#include <vector>

#include "config/training_arguments.h"

namespace snug::config {
namespace {

using enum FieldFate;

constexpr std::string_view kUpdates = "give a number of updates: a share of the run is not taken";
constexpr std::string_view kLeave = "leave it away";
constexpr std::string_view kFloat32 = "a float32 product is computed as one";
constexpr std::string_view kOnePass = "fp16 and bf16 have one way: docs/precision.md";
constexpr std::string_view kNoHub = "nothing is sent anywhere; the model is the folder output_dir";
constexpr std::string_view kOneDevice = "one process computes on the CPU";
constexpr std::string_view kThreads = "leave it away; threads says how many cores compute";
constexpr std::string_view kMetrics = "the log is metrics.jsonl in output_dir";
constexpr std::string_view kOwnKernels = "kernels are chosen when the run is planned";
constexpr std::string_view kCpu = "Snug computes on the CPU";
constexpr std::string_view kVerb = "the verb says what is done (snug train, eval, predict)";
constexpr std::string_view kReader = "the training process reads the rows itself";
constexpr std::string_view kLimit =
    "the planner finds the split that fits before the run, and never changes the global batch";
constexpr std::string_view kRecompute =
    "true is recompute: all, false is recompute: none; left away, the budget decides";
constexpr std::string_view kRecomputeOptions =
    "what is recomputed has the same bits, in whichever way";
constexpr std::string_view kEvaluations =
    "epoch is eval_steps: 0, steps is eval_steps (logging_steps where that is not given), no is "
    "validation_split: 0 and no validation_file";

constexpr TrainingArgument kKeys[] = {
    {"output_dir", kept, "none", "the same", ""},
    {"num_train_epochs", kept, "", "the same", ""},
    {"max_steps", kept, "", "the same; 0 is refused", "give -1 to train by epochs"},
    {"learning_rate", kept, "", "the same", ""},
    {"lr_scheduler_type", kept, "",
     "a schedule of the same name is the same; constant is constant_with_warmup",
     "other schedules are not built"},
    {"lr_scheduler_kwargs", kept, "none", "the same, for the schedules that are built", ""},
    {"warmup_steps", kept, "", "the same; a share of the run, below 1, is warmup_ratio", ""},
    {"warmup_ratio", kept, "none", "the same; warmup_steps above 0 wins", ""},
    {"optim", kept, "",
     "adamw_torch and adamw_torch_fused are adamw, and so is adamw_hf, which corrects epsilon "
     "otherwise; adafactor, sgd, adagrad and rmsprop are the same",
     "lion_32bit is lion with adam_beta2: 0.999; adamw_bnb_8bit is adamw with optim_bits: 8 and "
     "optim_codec: bnb, lion_8bit and rmsprop_bnb_8bit likewise; paged states and other optimizers "
     "are not built"},
    {"optim_args", kept, "none", "the same form; the names are those of docs/optimizers.md", ""},
    {"weight_decay", kept, "", "the same: no decay of biases and norms", ""},
    {"adam_beta1", kept, "", "the same, for the optimizers of docs/optimizers.md that have it", ""},
    {"adam_beta2", kept, "", "as adam_beta1", ""},
    {"adam_epsilon", kept, "", "as adam_beta1", ""},
    {"max_grad_norm", kept, "", "the same", ""},
    {"label_smoothing_factor", kept, "", "the same", ""},
    {"group_by_length", kept, "", "the same, but true where it is not given", ""},
    {"logging_steps", kept, "", "the same; the last update is logged, too", kUpdates},
    {"eval_steps", kept, "none", "the same; 0: at the end of every epoch", kUpdates},
    {"save_steps", kept, "", "the same; the last update is saved, too", kUpdates},
    {"save_total_limit", kept, "", "how many checkpoint-N stand beside best and last",
     "give a number; 0 keeps best and last alone"},
    {"report_to", kept, "none|", "none is the default; tensorboard writes event files",
     "the others are not built, and nothing is sent anywhere"},
    {"metric_for_best_model", kept, "none", "the same; f1 is macro_f1", ""},
    {"greater_is_better", kept, "none", "the same; a direction that the metric has not is refused",
     ""},
    {"bf16", kept, "", "the same; docs/precision.md", "", true},
    {"fp16", kept, "", "the same; docs/precision.md", "", true},
    {"bf16_full_eval", kept, "", "the same", "", true},
    {"fp16_full_eval", kept, "", "the same", "", true},
    {"seed", kept, "", "the same; of everything", ""},
};

constexpr TrainingArgument kTranslated[] = {
    {"per_device_train_batch_size", translated, "",
     "times gradient_accumulation_steps it is train_batch_size; Snug picks the split, or "
     "micro_batch_size sets it",
     "give train_batch_size (the global batch)"},
    {"per_gpu_train_batch_size", translated, "", "as per_device_train_batch_size",
     "give train_batch_size (the global batch)"},
    {"gradient_accumulation_steps", translated, "",
     "times per_device_train_batch_size (8 where that is not given) it is train_batch_size; beside "
     "train_batch_size or micro_batch_size alone, train_batch_size is it times micro_batch_size, "
     "as in DeepSpeed",
     "give train_batch_size and micro_batch_size, from which it follows"},
    {"per_device_eval_batch_size", translated, "", "is eval_batch_size", "give eval_batch_size"},
    {"per_gpu_eval_batch_size", translated, "", "is eval_batch_size", "give eval_batch_size"},
    {"activation_checkpointing", translated, "none", kRecompute, "give recompute", true},
    {"gradient_checkpointing", translated, "none", kRecompute, "give recompute", true},
    {"eval_strategy", translated, "", kEvaluations, "give eval_steps"},
    {"evaluation_strategy", translated, "", kEvaluations, "give eval_steps"},
    {"evaluate_during_training", translated, "",
     "true is eval_strategy: steps, false is eval_strategy: no", "give eval_steps", true},
    {"save_strategy", translated, "",
     "steps is save_steps; no and best are save_steps: 0: last is written at the end, best at "
     "evaluations",
     "epoch is not built: give save_steps"},
    {"resume_from_checkpoint", translated, "none",
     "true and false are resume, which goes on from the last checkpoint in output_dir",
     "give resume, and that folder's run as output_dir"},
    {"adafactor", translated, "", "true is optim: adafactor, false is nothing", "give optim", true},
};

constexpr TrainingArgument kCompute[] = {
    {"tf32", anyway, "none|false", kFloat32, kLeave, true},
    {"fp16_opt_level", anyway, "o1", kOnePass, kLeave},
    {"fp16_backend", anyway, "auto", kOnePass, kLeave},
    {"half_precision_backend", anyway, "auto", kOnePass, kLeave},
    {"auto_find_batch_size", anyway, "true|false", kLimit, "", true},
    {"activation_checkpointing_kwargs", anyway,
     "none||{use_reentrant:true}|{use_reentrant:false}|{use_reentrant:true,preserve_rng_state:true}"
     "|{use_reentrant:false,preserve_rng_state:true}",
     kRecomputeOptions, "give recompute"},
    {"gradient_checkpointing_kwargs", anyway,
     "none||{use_reentrant:true}|{use_reentrant:false}|{use_reentrant:true,preserve_rng_state:true}"
     "|{use_reentrant:false,preserve_rng_state:true}",
     kRecomputeOptions, "give recompute"},
    {"torch_compile", anyway, "false", kOwnKernels, kLeave, true},
    {"torch_compile_backend", anyway, "none", kOwnKernels, kLeave},
    {"torch_compile_mode", anyway, "none", kOwnKernels, kLeave},
    {"torchdynamo", anyway, "none", kOwnKernels, kLeave},
    {"jit_mode_eval", anyway, "false", kOwnKernels, kLeave, true},
    {"use_ipex", anyway, "false", kOwnKernels, kLeave, true},
    {"use_liger_kernel", anyway, "false", kOwnKernels, kLeave, true},
    {"liger_kernel_config", anyway, "none|", kOwnKernels, kLeave},
    {"use_cache", anyway, "false|none", "nothing is generated, so no keys and values are kept",
     kLeave, true},
    {"neftune_noise_alpha", anyway, "none", "embeddings get no noise", kLeave},
    {"torch_empty_cache_steps", anyway, "none", "the arena is one block; there is no cache",
     kLeave},
    {"use_cpu", anyway, "true|false", kCpu, "", true},
    {"no_cuda", anyway, "true|false", kCpu, "", true},
    {"use_mps_device", anyway, "false", kCpu, kLeave, true},
    {"tpu_num_cores", anyway, "none", kCpu, kLeave},
    {"tpu_metrics_debug", anyway, "false", kCpu, kLeave, true},
    {"xpu_backend", anyway, "none", kCpu, kLeave},
    {"full_determinism", anyway, "true|false",
     "every run is deterministic: the same bits on the same CPU with the same threads", "", true},
    {"optim_target_modules", anyway, "none|", "every weight that is trained has the one optimizer",
     "give freeze or param_groups"},
    {"data_seed", anyway, "none", "seed is the seed of the order of rows, too", "give seed"},
};

constexpr TrainingArgument kDistributed[] = {
    {"average_tokens_across_devices", anyway, "true|false",
     "the loss is divided by the weight of the whole global batch", "", true},
    {"accelerator_config", anyway, "none|", kOneDevice, kLeave},
    {"parallelism_config", anyway, "none|", kOneDevice, kLeave},
    {"dispatch_batches", anyway, "none", kOneDevice, kLeave, true},
    {"split_batches", anyway, "none|false", kOneDevice, kLeave, true},
    {"ddp_find_unused_parameters", anyway, "none", kOneDevice, kLeave, true},
    {"ddp_bucket_cap_mb", anyway, "none", kOneDevice, kLeave},
    {"ddp_broadcast_buffers", anyway, "none", kOneDevice, kLeave, true},
    {"ddp_static_graph", anyway, "none", kOneDevice, kLeave, true},
    {"ddp_backend", anyway, "none", kOneDevice, kLeave},
    {"ddp_timeout", anyway, "1800", kOneDevice, kLeave},
    {"sharded_ddp", anyway, "|false", kOneDevice, kLeave},
    {"fsdp", anyway, "none||false", kOneDevice, kLeave},
    {"fsdp_config", anyway, "none|", kOneDevice, kLeave},
    {"fsdp_min_num_params", anyway, "0", kOneDevice, kLeave},
    {"fsdp_transformer_layer_cls_to_wrap", anyway, "none", kOneDevice, kLeave},
    {"deepspeed", anyway, "none|", kOneDevice, "give memory: the planner fits the run into it"},
    {"local_rank", anyway, "-1|0", kOneDevice, kLeave},
    {"tp_size", anyway, "0|1", kOneDevice, kLeave},
    {"_n_gpu", anyway, "-1|0", kOneDevice, kLeave},
    {"mp_parameters", anyway, "", kOneDevice, kLeave},
    {"ray_scope", anyway, "last", "there is no search over hyper-parameters", kLeave},
};

constexpr TrainingArgument kLogs[] = {
    {"logging_strategy", anyway, "steps", "logging_steps says when", "give logging_steps"},
    {"logging_first_step", anyway, "false", "logging_steps says when",
     "give logging_steps: 1 to log every update", true},
    {"logging_dir", anyway, "none", "event files are in output_dir/runs", kLeave},
    {"logging_nan_inf_filter", anyway, "false",
     "losses are logged as they are, and one that is not finite ends the run", kLeave, true},
    {"log_on_each_node", anyway, "true|false", kOneDevice, "", true},
    {"log_level", anyway, "passive", "there are no levels of messages", kLeave},
    {"log_level_replica", anyway, "passive|warning", kOneDevice, kLeave},
    {"disable_tqdm", anyway, "none|false", "progress is drawn where stderr is a terminal",
     "give 2>FILE, which ends the drawing", true},
    {"run_name", anyway, "none", kMetrics, "give output_dir, which is the name of a run"},
    {"project", anyway, "huggingface", kMetrics, kLeave},
    {"trackio_space_id", anyway, "none", kMetrics, kLeave},
    {"trackio_bucket_id", anyway, "none", kMetrics, kLeave},
    {"trackio_static_space_id", anyway, "none|false", kMetrics, kLeave},
    {"include_num_input_tokens_seen", anyway, "no|false", "tokens are logged as a rate", kLeave,
     true},
    {"include_tokens_per_second", anyway, "true|false", "every line of the log has them", "", true},
    {"skip_memory_metrics", anyway, "true|false", "every line of the log has the bytes in use", "",
     true},
    {"debug", anyway, "none|", "the first number that is not finite ends the run", kLeave},
};

constexpr TrainingArgument kEvaluation[] = {
    {"eval_delay", anyway, "0|0.0", "evaluation begins with the first eval_steps", kLeave},
    {"eval_on_start", anyway, "false", "evaluation begins with the first eval_steps",
     "give the model to snug eval", true},
    {"eval_accumulation_steps", anyway, "none", "metrics and predictions are summed row by row",
     kLeave},
    {"eval_do_concat_batches", anyway, "true|false",
     "metrics and predictions are summed row by row", "", true},
    {"eval_use_gather_object", anyway, "false", kOneDevice, kLeave, true},
    {"prediction_loss_only", anyway, "false", "evaluation gives the metrics, too", kLeave, true},
    {"include_for_metrics", anyway, "", "metrics are built in", kLeave},
    {"include_inputs_for_metrics", anyway, "false", "metrics are built in", kLeave, true},
    {"batch_eval_metrics", anyway, "true|false", "metrics and predictions are summed row by row",
     "", true},
    {"past_index", anyway, "-1", "no model hands a state from row to row", kLeave},
    {"use_legacy_prediction_loop", anyway, "false", "there is one way to evaluate", kLeave, true},
    {"load_best_model_at_end", anyway, "true|false",
     "the best weights are output_dir/best, the last output_dir/last", "", true},
};

constexpr TrainingArgument kFiles[] = {
    {"overwrite_output_dir", anyway, "false", "a folder that holds a run is not overwritten",
     "give resume, or remove the folder", true},
    {"save_only_model", anyway, "false", "last has what a resumed run needs, best the model alone",
     kLeave, true},
    {"save_on_each_node", anyway, "false", kOneDevice, kLeave, true},
    {"save_safetensors", anyway, "true", "weights are safetensors", kLeave, true},
    {"enable_jit_checkpoint", anyway, "true|false",
     "SIGTERM ends a run with a checkpoint, and a killed run resumes to the same bits", "", true},
    {"ignore_data_skip", anyway, "false", "a resumed run goes on with the next row", kLeave, true},
    {"restore_callback_states_from_checkpoint", anyway, "true",
     "a resumed run goes on counting for early stopping", kLeave, true},
    {"push_to_hub", anyway, "false", kNoHub, kLeave, true},
    {"push_to_hub_model_id", anyway, "none", kNoHub, kLeave},
    {"push_to_hub_organization", anyway, "none", kNoHub, kLeave},
    {"push_to_hub_token", anyway, "none", kNoHub, kLeave},
    {"hub_token", anyway, "none", kNoHub, kLeave},
    {"hub_private_repo", anyway, "none|false", kNoHub, kLeave, true},
    {"hub_model_id", anyway, "none", kNoHub, kLeave},
    {"hub_strategy", anyway, "every_save", kNoHub, kLeave},
    {"hub_always_push", anyway, "false", kNoHub, kLeave, true},
    {"hub_revision", anyway, "none", kNoHub, kLeave},
};

constexpr TrainingArgument kRows[] = {
    {"dataloader_drop_last", anyway, "false",
     "the last batch of an epoch holds the rows that are left; with batch norm all batches are "
     "whole",
     kLeave, true},
    {"dataloader_num_workers", anyway, "0", kReader, kThreads},
    {"dataloader_pin_memory", anyway, "true|false", kReader, "", true},
    {"dataloader_persistent_workers", anyway, "false", kReader, kLeave, true},
    {"dataloader_prefetch_factor", anyway, "none", kReader, kLeave},
    {"dataloader_multiprocessing_context", anyway, "none", kReader, kLeave},
    {"dataloader_in_order", anyway, "true", kReader, kLeave, true},
    {"remove_unused_columns", anyway, "true", "other columns of the rows are not read", kLeave,
     true},
    {"label_names", anyway, "none|",
     "label_column is the column of the label, label_order has the names of all labels",
     "give label_column or label_order"},
    {"train_sampling_strategy", anyway, "group_by_length",
     "rows of windows of 64 batches are grouped by length, and the batches shuffled",
     "random is group_by_length: false"},
    {"length_column_name", anyway, "length", "lengths are counted in tokens", kLeave},
    {"do_train", anyway, "false", kVerb, kLeave, true},
    {"do_eval", anyway, "none|false", kVerb, kLeave, true},
    {"do_predict", anyway, "false", kVerb, kLeave, true},
};

std::vector<TrainingArgument> make_rows() {
  const std::span<const TrainingArgument> groups[] = {kKeys, kTranslated, kCompute, kDistributed,
                                                      kLogs, kEvaluation, kFiles,   kRows};
  std::vector<TrainingArgument> rows;
  for (const std::span<const TrainingArgument> group : groups)
    rows.insert(rows.end(), group.begin(), group.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return rows;
}

}  // namespace

std::span<const TrainingArgument> training_arguments() {
  static const std::vector<TrainingArgument> rows = make_rows();
  return rows;
}

const TrainingArgument* find_training_argument(std::string_view name) {
  for (const TrainingArgument& row : training_arguments()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace snug::config
