// SPDX-License-Identifier: Apache-2.0
// The rows. tests/golden/training_arguments.json has the fields of the package itself; a test holds
// the rows to it.
#include <algorithm>
#include <vector>

#include "config/training_arguments.h"

namespace snug::config {
namespace {

using enum FieldFate;

constexpr std::string_view kUpdates = "give a number of updates, or a share of them below 1";
constexpr std::string_view kLeave = "omit it";
constexpr std::string_view kFloat32 = "a float32 product is computed as one";
constexpr std::string_view kOnePass = "fp16 and bf16 have one way: docs/precision.md";
constexpr std::string_view kNoHub = "nothing is sent anywhere; the model is the folder output_dir";
constexpr std::string_view kOneDevice = "one process computes on the CPU";
constexpr std::string_view kThreads = "threads says how many cores compute";
constexpr std::string_view kMetrics = "the log is metrics.jsonl in output_dir";
constexpr std::string_view kOwnKernels = "kernels are chosen when the run is planned";
constexpr std::string_view kCpu = "Snug computes on the CPU";
constexpr std::string_view kVerb =
    "the verb says what is done (snug train, which evaluates, too; snug eval; snug predict)";
constexpr std::string_view kReader = "the training process reads the rows itself";
constexpr std::string_view kLimit =
    "the planner finds the split that fits before the run, and never changes the global batch";
constexpr std::string_view kRecompute =
    "true is recompute: all, false is recompute: none; where it is omitted, the budget decides";
constexpr std::string_view kRecomputeOptions =
    "what is recomputed has the same bits, in whichever way";
constexpr std::string_view kEvaluations =
    "epoch is eval_steps: epoch, steps is eval_steps (logging_steps where that is not given), no "
    "is "
    "validation_split: 0, or eval_steps: end where rows are given to measure";

constexpr TrainingArgument kKeys[] = {
    {"output_dir", kept, "none", "the same", ""},
    {"num_train_epochs", kept, "", "the same", ""},
    {"max_steps", kept, "", "the same; 0 is refused", "give -1 to train by epochs"},
    {"learning_rate", kept, "", "the same", ""},
    {"lr_scheduler_type", kept, "",
     "a schedule of the same name is the same; constant with a warm-up is constant_with_warmup, "
     "which is said",
     "reduce_lr_on_plateau and greedy follow a metric and are not built: give linear or cosine"},
    {"lr_scheduler_kwargs", kept, "none",
     "the same, where they are numbers (warmup_type and decay_type are linear and cosine)", ""},
    {"warmup_steps", kept, "", "the same; a share of the run, below 1, is warmup_ratio", ""},
    {"warmup_ratio", kept, "none", "the same; warmup_steps above 0 wins", ""},
    {"optim", kept, "",
     "adafactor, sgd, adagrad and rmsprop are the same; other names are in the table of optimizers "
     "below",
     "other optimizers are not built (docs/optimizers.md has the list)"},
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
    {"save_total_limit", kept, "none",
     "how many checkpoint-N stand beside best and last; none, which keeps all there, is 0",
     "0 keeps best and last only"},
    {"report_to", kept, "none|",
     "none is the default; tensorboard writes event files, and so does all, which says so",
     "the others are not built, and nothing is sent anywhere"},
    {"metric_for_best_model", kept, "none", "the same; f1 is macro_f1", ""},
    {"greater_is_better", kept, "none", "the same; a direction that the metric has not is refused",
     ""},
    {"bf16", kept, "", "the same; docs/precision.md", "", true},
    {"fp16", kept, "", "the same; docs/precision.md", "", true},
    {"bf16_full_eval", kept, "", "the same", "", true},
    {"fp16_full_eval", kept, "", "the same", "", true},
    {"seed", kept, "", "the same; of everything but what data_seed says", ""},
    {"data_seed", kept, "none", "the same: of the order of the training rows", ""},
    {"logging_first_step", kept, "", "the same", "", true},
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
     "steps is save_steps, epoch is save_steps: epoch; no and best are save_steps: end: last is "
     "written at the end, best at evaluations",
     "give save_steps"},
    {"logging_strategy", translated, "",
     "steps is logging_steps, epoch is logging_steps: epoch, no is logging_steps: end",
     "give logging_steps"},
    {"train_sampling_strategy", translated, "",
     "group_by_length is group_by_length: true, which is the default here, random is false",
     "give random or group_by_length: every epoch has an order of its own"},
    {"restore_callback_states_from_checkpoint", translated, "true",
     "a resumed run goes on counting for early_stopping_patience", "omit it"},
    {"resume_from_checkpoint", translated, "none",
     "true and false are resume, which goes on from the last checkpoint in output_dir",
     "give resume, and that folder's run as output_dir"},
    {"adafactor", translated, "", "true is optim: adafactor, false is nothing", "give optim", true},
};

constexpr TrainingArgument kCompute[] = {
    {"tf32", no_meaning, "", kFloat32, "", true},
    {"fp16_opt_level", anyway, "o1", kOnePass, kLeave},
    {"fp16_backend", no_meaning, "", kOnePass, ""},
    {"half_precision_backend", no_meaning, "", kOnePass, ""},
    {"auto_find_batch_size", anyway, "true|false", kLimit, "", true},
    {"activation_checkpointing_kwargs", anyway,
     "none||{use_reentrant:true}|{use_reentrant:false}|{use_reentrant:true,preserve_rng_state:true}"
     "|{use_reentrant:false,preserve_rng_state:true}",
     kRecomputeOptions, "give recompute"},
    {"gradient_checkpointing_kwargs", anyway,
     "none||{use_reentrant:true}|{use_reentrant:false}|{use_reentrant:true,preserve_rng_state:true}"
     "|{use_reentrant:false,preserve_rng_state:true}",
     kRecomputeOptions, "give recompute"},
    {"torch_compile", no_meaning, "", kOwnKernels, "", true},
    {"torch_compile_backend", no_meaning, "", kOwnKernels, ""},
    {"torch_compile_mode", no_meaning, "", kOwnKernels, ""},
    {"torchdynamo", no_meaning, "", kOwnKernels, ""},
    {"jit_mode_eval", no_meaning, "", kOwnKernels, "", true},
    {"use_ipex", no_meaning, "", kOwnKernels, "", true},
    {"use_liger_kernel", no_meaning, "", kOwnKernels, "", true},
    {"liger_kernel_config", no_meaning, "", kOwnKernels, ""},
    {"use_cache", no_meaning, "", "nothing is generated, so no keys and values are kept", "", true},
    {"neftune_noise_alpha", anyway, "none", "embeddings get no noise", kLeave},
    {"torch_empty_cache_steps", no_meaning, "", "the arena is one block; there is no cache", ""},
    {"use_cpu", no_meaning, "", kCpu, "", true},
    {"no_cuda", no_meaning, "", kCpu, "", true},
    {"use_mps_device", no_meaning, "", kCpu, "", true},
    {"tpu_num_cores", no_meaning, "", kCpu, ""},
    {"tpu_metrics_debug", no_meaning, "", kCpu, "", true},
    {"xpu_backend", no_meaning, "", kCpu, ""},
    {"full_determinism", anyway, "true|false",
     "every run is deterministic: the same bits on the same CPU with the same threads", "", true},
    {"optim_target_modules", anyway, "none|", "every weight that is trained has the one optimizer",
     "give freeze or param_groups"},
};

constexpr TrainingArgument kDistributed[] = {
    {"average_tokens_across_devices", anyway, "true|false",
     "the loss is divided by the weight of the whole global batch", "", true},
    {"accelerator_config", anyway,
     "none||{split_batches:false,dispatch_batches:none,even_batches:true,use_seedable_sampler:true,"
     "non_blocking:false,gradient_accumulation_kwargs:none,use_configured_state:false}",
     kOneDevice, kLeave},
    {"parallelism_config", anyway, "none|", kOneDevice, kLeave},
    {"dispatch_batches", no_meaning, "", kOneDevice, "", true},
    {"split_batches", no_meaning, "", kOneDevice, "", true},
    {"ddp_find_unused_parameters", no_meaning, "", kOneDevice, "", true},
    {"ddp_bucket_cap_mb", no_meaning, "", kOneDevice, ""},
    {"ddp_broadcast_buffers", no_meaning, "", kOneDevice, "", true},
    {"ddp_static_graph", no_meaning, "", kOneDevice, "", true},
    {"ddp_backend", no_meaning, "", kOneDevice, ""},
    {"ddp_timeout", no_meaning, "", kOneDevice, ""},
    {"sharded_ddp", anyway, "|false", kOneDevice, kLeave},
    {"fsdp", anyway, "none||false", kOneDevice, kLeave},
    {"fsdp_config", no_meaning, "", kOneDevice, ""},
    {"fsdp_min_num_params", no_meaning, "", kOneDevice, ""},
    {"fsdp_transformer_layer_cls_to_wrap", no_meaning, "", kOneDevice, ""},
    {"deepspeed", anyway, "none|", kOneDevice, "give memory: the planner fits the run into it"},
    {"local_rank", no_meaning, "", kOneDevice, ""},
    {"tp_size", no_meaning, "", kOneDevice, ""},
    {"_n_gpu", no_meaning, "", kOneDevice, ""},
    {"mp_parameters", no_meaning, "", kOneDevice, ""},
    {"ray_scope", no_meaning, "", "there is no search over hyper-parameters", ""},
};

constexpr TrainingArgument kLogs[] = {
    {"logging_dir", no_meaning, "", "event files are in output_dir/runs", ""},
    {"logging_nan_inf_filter", no_meaning, "",
     "losses are logged as they are, and one that is not finite ends the run", "", true},
    {"log_on_each_node", no_meaning, "", kOneDevice, "", true},
    {"log_level", no_meaning, "", "there are no levels of messages", ""},
    {"log_level_replica", no_meaning, "", kOneDevice, ""},
    {"disable_tqdm", no_meaning, "", "progress is drawn where stderr is a terminal",
     "give 2>FILE, which ends the drawing", true},
    {"run_name", no_meaning, "", kMetrics, "give output_dir, which is the name of a run"},
    {"project", no_meaning, "", kMetrics, ""},
    {"trackio_space_id", no_meaning, "", kMetrics, ""},
    {"trackio_bucket_id", no_meaning, "", kMetrics, ""},
    {"trackio_static_space_id", no_meaning, "", kMetrics, ""},
    {"include_num_input_tokens_seen", no_meaning, "", "tokens are logged as a rate", "", true},
    {"include_tokens_per_second", no_meaning, "", "every line of the log has them", "", true},
    {"skip_memory_metrics", no_meaning, "", "every line of the log has the bytes in use", "", true},
    {"debug", anyway, "none||underflow_overflow",
     "the first number that is not finite ends the run", kLeave},
};

constexpr TrainingArgument kEvaluation[] = {
    {"eval_delay", anyway, "0|0.0", "evaluation begins with the first eval_steps", kLeave},
    {"eval_on_start", anyway, "false", "evaluation begins with the first eval_steps",
     "give the model to snug eval", true},
    {"eval_accumulation_steps", no_meaning, "", "metrics and predictions are summed row by row",
     ""},
    {"eval_do_concat_batches", no_meaning, "", "metrics and predictions are summed row by row", "",
     true},
    {"eval_use_gather_object", no_meaning, "", kOneDevice, "", true},
    {"prediction_loss_only", no_meaning, "", "evaluation gives the metrics, too", "", true},
    {"include_for_metrics", no_meaning, "", "metrics are built in", ""},
    {"include_inputs_for_metrics", no_meaning, "", "metrics are built in", "", true},
    {"batch_eval_metrics", anyway, "true|false", "metrics and predictions are summed row by row",
     "", true},
    {"past_index", anyway, "-1", "no model hands a state from row to row", kLeave},
    {"use_legacy_prediction_loop", no_meaning, "", "there is one way to evaluate", "", true},
    {"load_best_model_at_end", anyway, "true|false",
     "the best weights are output_dir/best, the last output_dir/last", "", true},
};

constexpr TrainingArgument kFiles[] = {
    {"overwrite_output_dir", no_meaning, "", "a folder that holds a run is not overwritten",
     "give resume, or remove the folder", true},
    {"save_only_model", no_meaning, "", "last has what a resumed run needs, best the model alone",
     "", true},
    {"save_on_each_node", no_meaning, "", kOneDevice, "", true},
    {"save_safetensors", anyway, "true", "weights are safetensors", kLeave, true},
    {"enable_jit_checkpoint", anyway, "true|false",
     "SIGTERM ends a run with a checkpoint, and a killed run resumes to the same bits", "", true},
    {"ignore_data_skip", anyway, "false", "a resumed run goes on with the next row", kLeave, true},
    {"push_to_hub", anyway, "false", kNoHub, kLeave, true},
    {"push_to_hub_model_id", no_meaning, "", kNoHub, ""},
    {"push_to_hub_organization", no_meaning, "", kNoHub, ""},
    {"push_to_hub_token", no_meaning, "", kNoHub, ""},
    {"hub_token", no_meaning, "", kNoHub, ""},
    {"hub_private_repo", no_meaning, "", kNoHub, "", true},
    {"hub_model_id", no_meaning, "", kNoHub, ""},
    {"hub_strategy", no_meaning, "", kNoHub, ""},
    {"hub_always_push", no_meaning, "", kNoHub, "", true},
    {"hub_revision", no_meaning, "", kNoHub, ""},
};

constexpr TrainingArgument kRows[] = {
    {"dataloader_drop_last", anyway, "false",
     "the last batch of an epoch holds the rows that are left; with batch norm all batches are "
     "whole",
     kLeave, true},
    {"dataloader_num_workers", no_meaning, "", kReader, kThreads},
    {"dataloader_pin_memory", no_meaning, "", kReader, "", true},
    {"dataloader_persistent_workers", no_meaning, "", kReader, "", true},
    {"dataloader_prefetch_factor", no_meaning, "", kReader, ""},
    {"dataloader_multiprocessing_context", no_meaning, "", kReader, ""},
    {"dataloader_in_order", no_meaning, "", kReader, "", true},
    {"remove_unused_columns", no_meaning, "", "other columns of the rows are not read", "", true},
    {"label_names", anyway, "none||labels|label",
     "label_column is the column of the label, label_order has the names of all labels",
     "give label_column or label_order"},
    {"length_column_name", no_meaning, "", "lengths are counted in tokens", ""},
    {"do_train", no_meaning, "", kVerb, "", true},
    {"do_eval", no_meaning, "", kVerb, "", true},
    {"do_predict", no_meaning, "", kVerb, "", true},
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
