// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules with the values of transformers' get_scheduler. Pure functions of the
// number of updates.
#pragma once

#include <cstdint>

#include "snug/train_spec.h"

namespace snug::optim {

/// linear, cosine and cosine_with_restarts fall to 0 at the end, polynomial to lr_end; constant
/// stays, and inverse_sqrt falls without an end; those with min_lr in their names and
/// warmup_stable_decay fall to their least. All rise linearly during the warm-up (constant with a
/// warm-up is transformers' constant_with_warmup).
struct Schedule {
  ScheduleKind kind = ScheduleKind::linear;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  NamedNumbers arguments = {};  // those that are not given have transformers' defaults
  double learning_rate = 1;     // the highest, of which lr_end is a part
};
/// Throws Error{bad_config} for an argument that the kind does not have, or that cannot be.
[[nodiscard]] Schedule schedule_of(const TrainSpec& spec);

/// Whether it falls to an end, and so has to know how many updates there are.
[[nodiscard]] bool has_end(ScheduleKind kind);

/// Updates of the warm-up: `warmup_steps` where it is above 0, else warmup_ratio of all, rounded
/// up.
[[nodiscard]] int64_t resolve_warmup(int64_t warmup_steps, double warmup_ratio,
                                     int64_t total_steps);

/// What the peak rate is multiplied by in the update after `completed` updates; the first update
/// has completed = 0.
[[nodiscard]] double rate_factor(const Schedule& schedule, int64_t completed);

}  // namespace snug::optim
