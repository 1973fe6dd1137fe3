// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_writer.h"

#include <algorithm>
#include <cmath>

#include "base/numbers.h"
#include "ops/optimizer/optimizers.h"
#include "snug/error.h"

namespace snug::train {
namespace {

// Of the run's optimizer: smaller than other optimizers' is usual in some.
double usual_epsilon(const RunConfig& config) {
  const HyperParameter* its = parameter_of_key(*find_optimizer(config.optim), "adam_epsilon");
  return its != nullptr ? its->default_value : 0;
}

bool is_extreme(const ParameterGroup& group) {
  return group.learning_rate.value_or(0) > 1 || group.weight_decay.value_or(0) > 1;
}

// Values of the recipe that no training needs, first; then what helps in general.
std::string advice(const RunConfig& config) {
  std::string extreme;
  const auto add = [&](bool applies, const char* change, const char* key) {
    if (!applies) return;
    extreme += (extreme.empty() ? "" : " and ") + std::string(change) + " " + key + " (now " +
               config.get(key) + ")";
  };
  add(config.weight_decay > 1, "lower", "weight_decay");
  add(config.adam_epsilon.value_or(1) < std::min(1e-12, usual_epsilon(config)), "raise",
      "adam_epsilon");
  add(config.learning_rate > 1, "lower", "learning_rate");
  add(std::any_of(config.param_groups.begin(), config.param_groups.end(), is_extreme), "lower",
      "param_groups");
  if (!extreme.empty()) return extreme;
  const bool has_constant_scale = config.loss_scale.find_first_of("0123456789") == 0;
  if (has_constant_scale) return "set loss_scale to dynamic, or lower learning_rate";
  return config.max_grad_norm > 0 ? "lower learning_rate or raise warmup_steps"
                                  : "lower learning_rate, raise warmup_steps or set max_grad_norm";
}

}  // namespace

void CheckpointWriter::fail(int64_t step, const std::string& what) const {
  const std::string last = training_.folder.last();
  const std::string kept = good_step_
                               ? "nothing of this was saved: the last good checkpoint is " + last +
                                     " (after update " + std::to_string(*good_step_) + ")"
                               : "nothing of this was saved, and there is no checkpoint yet";
  throw Error(ErrorCode::numeric, "update " + std::to_string(step), what + "; " + kept,
              advice(*training_.config) +
                  (good_step_ ? ", and add --resume to go on from that checkpoint"
                              : ", and add --resume to begin again in this folder"));
}

void CheckpointWriter::require_finite(const EvalMetrics& metrics, int64_t step) const {
  if (std::isfinite(metrics.loss)) return;
  fail(step, "the loss of the evaluation is not finite: " + number_text(metrics.loss));
}

void CheckpointWriter::require_finite_values(int64_t step) const {
  const std::string found = training_.session->find_not_finite();
  if (!found.empty()) fail(step, "the weights are not finite: " + found);
}

TrainerState CheckpointWriter::trainer_state(const TrainState& state) const {
  const RunConfig& config = *training_.config;
  const int64_t batches = training_.sampler->batches_per_epoch();
  const int64_t total = training_.total_steps;
  return {.global_step = state.step,
          .epoch = state.epochs_done(batches),
          .max_steps = total,
          .num_train_epochs = (total + batches - 1) / batches,
          .logging_steps = config.logging_steps,
          .eval_steps = config.eval_steps > 0 ? config.eval_steps : batches,
          .save_steps = config.save_steps > 0 ? config.save_steps : total,
          .train_batch_size = config.train_batch_size,
          .best_metric = state.best_metric,
          .best_global_step = state.best_step,
          .best_model_checkpoint = training_.folder.best(),
          .logs = {training_.folder.file(kUpdateLog), training_.folder.file(kEvaluationLog)}};
}

std::string CheckpointWriter::save_last(const TrainState& state) {
  require_finite_values(state.step);
  const TrainerState trainer = trainer_state(state);
  const RunState both{.own = state, .trainer = trainer};
  std::string sha256 =
      save_checkpoint(training_.folder.last(), *training_.session, *training_.model,
                      training_.tokenizer, training_.base_sha256, &both);
  good_step_ = state.step;
  return sha256;
}

void CheckpointWriter::save_best(int64_t step) const {
  require_finite_values(step);
  (void)save_checkpoint(training_.folder.best(), *training_.session, *training_.model,
                        training_.tokenizer, training_.base_sha256, nullptr);
}

bool CheckpointWriter::keeps_archive() const {
  const RunConfig& config = *training_.config;
  return config.save_total_limit > 0 && config.save_steps > 0 && good_step_.value_or(0) > 0 &&
         *good_step_ % config.save_steps == 0;
}

void CheckpointWriter::archive() const {
  if (!keeps_archive()) return;
  archive_checkpoint(training_.folder, *good_step_);
  prune_archives(training_.folder, training_.config->save_total_limit);
}

void CheckpointWriter::finish_archive() const {
  if (!keeps_archive()) return;
  if (!has_archive(training_.folder, *good_step_))
    archive_checkpoint(training_.folder, *good_step_);
  prune_archives(training_.folder, training_.config->save_total_limit);
}

}  // namespace snug::train
