// SPDX-License-Identifier: Apache-2.0
#include "train/recipe.h"

#include <algorithm>

#include "base/wildcard.h"
#include "optim/schedule.h"
#include "snug/error.h"

namespace snug::train {

optim::Options optimizer_of(const RunConfig& config) {
  return {.algorithm =
              config.optim == OptimizerKind::sgd ? optim::Algorithm::sgd : optim::Algorithm::adamw,
          .beta1 = config.adam_beta1,
          .beta2 = config.adam_beta2,
          .epsilon = config.adam_epsilon,
          .momentum = config.momentum,
          .nesterov = false,
          .weight_decay = config.weight_decay};
}

Recipe recipe_of(const RunConfig& config) {
  bool has_adam_settings = false;
  for (const char* key : {"adam_beta1", "adam_beta2", "adam_epsilon"}) {
    if (config.source_of(key) == ConfigSource::default_value) continue;
    has_adam_settings = true;
    if (config.optim == OptimizerKind::sgd) {
      throw Error(ErrorCode::bad_config, key, "sgd has no use for it",
                  "leave it away, or set optim to adamw");
    }
  }
  return {.optimizer = optimizer_of(config),
          .max_grad_norm = config.max_grad_norm,
          .has_adam_settings = has_adam_settings,
          .label_smoothing = config.label_smoothing_factor,
          .freeze = config.freeze};
}

double learning_rate_at(const RunConfig& config, int64_t completed, int64_t total_steps) {
  const optim::Schedule schedule{
      .shape = config.lr_scheduler_type == ScheduleKind::cosine   ? optim::ScheduleShape::cosine
               : config.lr_scheduler_type == ScheduleKind::linear ? optim::ScheduleShape::linear
                                                                  : optim::ScheduleShape::constant,
      .warmup_steps = optim::resolve_warmup(config.warmup_steps, config.warmup_ratio, total_steps),
      .total_steps = total_steps};
  return config.learning_rate * optim::rate_factor(schedule, completed);
}

std::vector<std::string> trainable_names(const std::vector<std::string>& names,
                                         const std::vector<std::string>& freeze) {
  for (const std::string& pattern : freeze) {
    const bool is_used = std::any_of(names.begin(), names.end(), [&](const std::string& n) {
      return matches_wildcard(pattern, n);
    });
    if (!is_used) {
      throw Error(ErrorCode::bad_config, "freeze",
                  "the pattern '" + pattern + "' matches no weight of the model",
                  "`snug inspect --weights` lists the names, for example '" +
                      (names.empty() ? "" : names.front()) + "'");
    }
  }
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    const bool is_frozen =
        std::any_of(freeze.begin(), freeze.end(),
                    [&](const std::string& pattern) { return matches_wildcard(pattern, name); });
    if (!is_frozen) kept.push_back(name);
  }
  if (kept.empty())
    throw Error(ErrorCode::bad_config, "freeze",
                "every weight is frozen: there is nothing to train");
  return kept;
}

}  // namespace snug::train
