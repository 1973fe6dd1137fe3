// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/numbers.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

constexpr double kTimescale = 10000;  // updates, where there is no warm-up

struct Argument {
  ScheduleKind kind;
  const char* name;
};
constexpr Argument kArguments[] = {{ScheduleKind::cosine, "num_cycles"},
                                   {ScheduleKind::inverse_sqrt, "timescale"}};

constexpr const char* kNames[] = {
#define SNUG_SCHEDULE_NAME(word) #word,
    SNUG_SCHEDULES(SNUG_SCHEDULE_NAME)
#undef SNUG_SCHEDULE_NAME
};

[[noreturn]] void refuse_argument(const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, "lr_scheduler_kwargs", what, hint);
}

void check_arguments(const TrainSpec& spec) {
  std::string known;
  for (const Argument& argument : kArguments) {
    if (argument.kind == spec.lr_scheduler_type)
      known += (known.empty() ? "" : ", ") + std::string(argument.name);
  }
  for (const auto& [name, value] : spec.lr_scheduler_kwargs) {
    const bool is_known =
        std::any_of(std::begin(kArguments), std::end(kArguments), [&, &key = name](const auto& it) {
          return it.kind == spec.lr_scheduler_type && it.name == key;
        });
    if (!is_known)
      refuse_argument(
          "'" + name + "' is no argument of " + kNames[static_cast<size_t>(spec.lr_scheduler_type)],
          known.empty() ? "omit lr_scheduler_kwargs" : "there is: " + known);
    if (!(value > 0 && std::isfinite(value)))
      refuse_argument(name + " " + number_text(value) + " is not above 0", "give a number above 0");
  }
}

double argument(const Schedule& schedule, const char* name, double otherwise) {
  const auto found = schedule.arguments.find(name);
  return found == schedule.arguments.end() ? otherwise : found->second;
}

}  // namespace

Schedule schedule_of(const TrainSpec& spec) {
  check_arguments(spec);
  return {.kind = spec.lr_scheduler_type,
          .warmup_steps = spec.warmup_steps,
          .total_steps = spec.max_steps,
          .arguments = spec.lr_scheduler_kwargs};
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
  const auto cosine = [&](double half_waves) {
    return 0.5 * (1 + std::cos(std::numbers::pi * half_waves * (at - warmup) / decay_steps));
  };
  switch (schedule.kind) {
    case ScheduleKind::linear:
      return std::max(0.0, (total - at) / decay_steps);
    case ScheduleKind::cosine:
      return std::max(0.0, cosine(2 * argument(schedule, "num_cycles", 0.5)));
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::inverse_sqrt: {
      const double timescale =
          argument(schedule, "timescale", schedule.warmup_steps > 0 ? warmup : kTimescale);
      return 1 / std::sqrt((at + (timescale - warmup)) / timescale);
    }
  }
  return 1;
}

}  // namespace snug::optim
