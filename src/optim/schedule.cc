// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace snug::optim {
namespace {

constexpr double kTimescale = 10000;  // updates, where there is no warm-up

}  // namespace

Schedule schedule_of(const TrainSpec& spec) {
  return {.kind = spec.lr_scheduler_type,
          .warmup_steps = spec.warmup_steps,
          .total_steps = spec.max_steps};
}

bool has_end(ScheduleKind kind) {
  return kind != ScheduleKind::constant && kind != ScheduleKind::inverse_sqrt;
}

int64_t resolve_warmup(int64_t warmup_steps, double warmup_ratio, int64_t total_steps) {
  if (warmup_steps > 0) return warmup_steps;
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_ratio));
}

double rate_factor(const Schedule& schedule, int64_t completed) {
  const auto at = static_cast<double>(completed);
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const auto total = static_cast<double>(schedule.total_steps);
  if (completed < schedule.warmup_steps) return at / std::max(1.0, warmup);
  const double decay_steps = std::max(1.0, total - warmup);
  switch (schedule.kind) {
    case ScheduleKind::linear:
      return std::max(0.0, (total - at) / decay_steps);
    case ScheduleKind::cosine:
      return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * (at - warmup) / decay_steps)));
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::inverse_sqrt: {
      const double timescale = schedule.warmup_steps > 0 ? warmup : kTimescale;
      return 1 / std::sqrt((at + (timescale - warmup)) / timescale);
    }
  }
  return 1;
}

}  // namespace snug::optim
