// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_writer.h"

#include <algorithm>
#include <cmath>

#include "base/numbers.h"
#include "ops/optimizer/optimizers.h"
#include "snug/error.h"

namespace snug::train {
namespace {

// The usual epsilon of the run's optimizer; some have a smaller one than others.
double usual_epsilon(const RunConfig& config) {
  const HyperParameter* its = parameter_of_key(*find_optimizer(config.optim), "adam_epsilon");
  return its != nullptr ? its->default_value : 0;
}

bool is_extreme(const ParameterGroup& group) {
  return group.learning_rate.value_or(0) > 1 || group.weight_decay.value_or(0) > 1;
}

bool has_constant_scale(const RunConfig& config) {
  return config.loss_scale.find_first_of("0123456789") == 0;
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
  if (has_constant_scale(config)) return "set loss_scale to dynamic, or lower learning_rate";
  return config.max_grad_norm > 0 ? "lower learning_rate or raise warmup_steps"
                                  : "lower learning_rate, raise warmup_steps or set max_grad_norm";
}

// The key by which what was found was computed in float16; empty where it was not.
std::string half_key(const RunConfig& config, FoundBy by) {
  if (by == FoundBy::save) return {};
  if (by == FoundBy::evaluation && config.fp16_full_eval) return "fp16_full_eval";
  if (by == FoundBy::evaluation && config.bf16_full_eval) return {};
  return config.fp16 ? "fp16" : "";
}

}  // namespace

void CheckpointWriter::fail(Found found, const std::string& what) const {
  const RunConfig& config = *training_.config;
  const std::string last = training_.folder.last();
  const std::string half = half_key(config, found.by);
  const std::string ends = half + ", whose numbers end at 65504";
  const std::string away = half.empty() ? "" : " or omit " + ends;
  const std::string helps = advice(config);
  // Weights that have not moved since give the same again, whatever the rate; a gradient under a
  // loss scale may be the scale's fault.
  const bool has_scale =
      found.by == FoundBy::update &&
      (training_.session->has_dynamic_loss_scale() || has_constant_scale(config));
  const bool is_same = found.moves == good_moves_ && !has_scale;
  // Whoever resumed may have come by the hint of a run that ended in the same way.
  const bool may_be_again = is_resumed_ && good_moves_ == first_moves_;
  const std::string of_last =
      last + " (after update " + std::to_string(good_step_.value_or(0)) + ")";
  const std::string begin_again =
      "begin again: remove " + last + " and add --resume, or give another output_dir";
  std::string kept;
  std::string hint;
  if (is_same && good_step_) {
    kept = "the weights of the last checkpoint, " + of_last + ", give it already";
    hint = helps + away + ", and " + begin_again;
  } else if (is_same) {
    kept = "the weights that training begins with give it already";
    hint = "take another model" + away +
           ", or look for extreme values in the data and in class_weights";
  } else if (good_step_) {
    kept = "nothing of this was saved: the last good checkpoint is " + of_last;
    hint = helps + ", and add --resume to go on from that checkpoint";
    if (may_be_again) {
      hint += "; where it ends like this again, its weights are the cause" +
              (half.empty() ? "" : ", or " + ends) + ": " + begin_again;
    } else if (!half.empty()) {
      hint += "; or omit " + ends + ", and " + begin_again;
    }
  } else {
    kept = "nothing of this was saved, and there is no checkpoint yet";
    hint = helps + away + ", and add --resume to begin again in this folder";
  }
  throw Error(ErrorCode::numeric, "update " + std::to_string(found.step), what + "; " + kept, hint);
}

void CheckpointWriter::require_finite(const EvalMetrics& metrics, const RunState& state) const {
  if (std::isfinite(metrics.loss)) return;
  fail({FoundBy::evaluation, state.step, state.optimizer_step},
       "the loss of the evaluation is not finite: " + number_text(metrics.loss));
}

void CheckpointWriter::require_finite_values(const RunState& state) const {
  const std::string found = training_.session->find_not_finite();
  if (!found.empty())
    fail({FoundBy::save, state.step, state.optimizer_step}, "the weights are not finite: " + found);
}

TransformersState CheckpointWriter::trainer_state(const RunState& state) const {
  const RunConfig& config = *training_.config;
  const int64_t batches = training_.sampler->batches_per_epoch();
  const int64_t total = training_.total_steps;
  const auto or_all = [&](const Interval& interval) {
    const int64_t every = interval.updates(total, batches);
    return every > 0 ? every : total;
  };
  return {.global_step = state.step,
          .epoch = state.epochs_done(batches),
          .max_steps = total,
          .num_train_epochs = (total + batches - 1) / batches,
          .logging_steps = or_all(config.logging_steps),
          .eval_steps = or_all(config.eval_steps.or_epoch()),
          .save_steps = or_all(config.save_steps),
          .train_batch_size = config.train_batch_size,
          .best_metric = state.best_metric,
          .best_global_step = state.best_step,
          .best_model_checkpoint = RunFolder{config.output_dir}.best(),  // as it was given
          .logs = {training_.folder.file(kUpdateLog), training_.folder.file(kEvaluationLog)}};
}

std::string CheckpointWriter::save_last(const RunState& state) {
  require_finite_values(state);
  const TransformersState trainer = trainer_state(state);
  const CheckpointState both{.own = state, .trainer = trainer};
  std::string sha256 =
      save_checkpoint(training_.folder.last(), *training_.session, *training_.model,
                      training_.tokenizer, training_.base_sha256, &both);
  good_step_ = state.step;
  good_moves_ = state.optimizer_step;
  return sha256;
}

void CheckpointWriter::save_best(const RunState& state) const {
  require_finite_values(state);
  (void)save_checkpoint(training_.folder.best(), *training_.session, *training_.model,
                        training_.tokenizer, training_.base_sha256, nullptr);
}

bool CheckpointWriter::keeps_archive() const {
  const RunConfig& config = *training_.config;
  return config.save_total_limit > 0 && good_step_.value_or(0) > 0 &&
         is_due(training_, config.save_steps, *good_step_);
}

void CheckpointWriter::archive() const {
  if (!keeps_archive()) return;
  archive_checkpoint(training_.folder, *good_step_);
  prune_archives(training_.folder, *good_step_, training_.config->save_total_limit);
}

void CheckpointWriter::finish_archive() const {
  if (!keeps_archive()) return;
  if (!has_archive(training_.folder, *good_step_))
    archive_checkpoint(training_.folder, *good_step_);
  prune_archives(training_.folder, *good_step_, training_.config->save_total_limit);
}

}  // namespace snug::train
