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

constexpr double kEndRate = 1e-7;

struct Argument {
  ScheduleKind kind;
  const char* name;
  bool may_be_0 = false;
};
constexpr Argument kArguments[] = {
    {ScheduleKind::cosine, "num_cycles"},
    {ScheduleKind::cosine_with_restarts, "num_cycles"},
    {ScheduleKind::polynomial, "power"},
    {ScheduleKind::polynomial, "lr_end", true},
    {ScheduleKind::inverse_sqrt, "timescale"},
    {ScheduleKind::cosine_with_min_lr, "num_cycles"},
    {ScheduleKind::cosine_with_min_lr, "min_lr", true},
    {ScheduleKind::cosine_with_min_lr, "min_lr_rate", true},
    {ScheduleKind::cosine_warmup_with_min_lr, "num_cycles"},
    {ScheduleKind::cosine_warmup_with_min_lr, "min_lr", true},
    {ScheduleKind::cosine_warmup_with_min_lr, "min_lr_rate", true},
    {ScheduleKind::cosine_warmup_with_min_lr, "warmup_lr_rate", true},
    {ScheduleKind::warmup_stable_decay, "num_decay_steps"},
    {ScheduleKind::warmup_stable_decay, "num_stable_steps", true},
    {ScheduleKind::warmup_stable_decay, "min_lr_ratio", true},
    {ScheduleKind::warmup_stable_decay, "num_cycles"}};

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
    const auto argument = std::find_if(std::begin(kArguments), std::end(kArguments),
                                       [&, &key = name](const auto& it) {
                                         return it.kind == spec.lr_scheduler_type && it.name == key;
                                       });
    if (argument == std::end(kArguments))
      refuse_argument(
          "'" + name + "' is no argument of " + kNames[static_cast<size_t>(spec.lr_scheduler_type)],
          known.empty() ? "omit lr_scheduler_kwargs" : "there is: " + known);
    const bool may_be = std::isfinite(value) && (argument->may_be_0 ? value >= 0 : value > 0);
    const std::string range = argument->may_be_0 ? "0 or more" : "above 0";
    if (!may_be)
      refuse_argument(name + " " + number_text(value) + " is not " + range,
                      "give a number " + range);
  }
}

// What has no default: transformers refuses the run, too.
void check_needed(const TrainSpec& spec) {
  const std::string kind = kNames[static_cast<size_t>(spec.lr_scheduler_type)];
  const auto has = [&](const char* name) { return spec.lr_scheduler_kwargs.count(name) != 0; };
  switch (spec.lr_scheduler_type) {
    case ScheduleKind::cosine_with_min_lr:
    case ScheduleKind::cosine_warmup_with_min_lr:
      if (has("min_lr") == has("min_lr_rate"))
        refuse_argument(kind + " needs min_lr or min_lr_rate, and not both",
                        R"(give lr_scheduler_kwargs: {"min_lr_rate": 0.1}, for example)");
      return;
    case ScheduleKind::warmup_stable_decay:
      if (!has("num_decay_steps"))
        refuse_argument(kind + " needs num_decay_steps",
                        R"(give lr_scheduler_kwargs: {"num_decay_steps": 100}, for example)");
      return;
    default:
      return;
  }
}

double argument(const Schedule& schedule, const char* name, double otherwise) {
  const auto found = schedule.arguments.find(name);
  return found == schedule.arguments.end() ? otherwise : found->second;
}

}  // namespace

Schedule schedule_of(const TrainSpec& spec) {
  check_arguments(spec);
  check_needed(spec);
  Schedule schedule{.kind = spec.lr_scheduler_type,
                    .warmup_steps = spec.warmup_steps,
                    .total_steps = spec.max_steps,
                    .arguments = spec.lr_scheduler_kwargs,
                    .learning_rate = spec.learning_rate};
  const double end = argument(schedule, "lr_end", kEndRate);
  if (spec.lr_scheduler_type == ScheduleKind::polynomial && !(end < spec.learning_rate))
    refuse_argument("lr_end " + number_text(end) + " is not below learning_rate " +
                        number_text(spec.learning_rate),
                    "give a smaller lr_end");
  return schedule;
}

bool has_end(ScheduleKind kind) {
  return kind != ScheduleKind::constant && kind != ScheduleKind::inverse_sqrt;
}

int64_t resolve_warmup(int64_t warmup_steps, double warmup_ratio, int64_t total_steps) {
  if (warmup_steps > 0) return warmup_steps;
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_ratio));
}

namespace {

// The least of a schedule with one, as a part of the peak.
double least_factor(const Schedule& schedule) {
  const double least = argument(schedule, "min_lr", -1);
  if (least < 0) return argument(schedule, "min_lr_rate", 0);
  return schedule.learning_rate > 0 ? least / schedule.learning_rate : 0;
}

double above_least(double factor, double least) {
  return std::max(0.0, factor * (1 - least) + least);
}

double half_wave(double waves) { return 0.5 * (1 + std::cos(std::numbers::pi * waves)); }

// Counts an update as done that is only beginning, in the warm-up and behind it.
double cosine_one_ahead(const Schedule& schedule, double at) {
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const auto total = static_cast<double>(schedule.total_steps);
  if (at < warmup) {
    const double first = argument(schedule, "warmup_lr_rate", -1);
    if (first < 0) return (at + 1) / std::max(1.0, warmup);
    return first + (1 - first) * at / std::max(1.0, warmup - 1);
  }
  const double progress = (at - warmup + 1) / std::max(1.0, total - warmup);
  return above_least(half_wave(argument(schedule, "num_cycles", 0.5) * 2 * progress),
                     least_factor(schedule));
}

double warmup_stable_decay(const Schedule& schedule, double at) {
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const double least = argument(schedule, "min_lr_ratio", 0);
  const double decay = argument(schedule, "num_decay_steps", 0);
  const double stable = argument(schedule, "num_stable_steps",
                                 static_cast<double>(schedule.total_steps) - warmup - decay);
  if (at < warmup) return above_least(at / std::max(1.0, warmup), least);
  if (at < warmup + stable) return 1;
  if (at >= warmup + stable + decay) return least;
  const double progress = (at - warmup - stable) / std::max(1.0, decay);
  return above_least(half_wave(argument(schedule, "num_cycles", 0.5) * 2 * progress), least);
}

}  // namespace

double rate_factor(const Schedule& schedule, int64_t completed) {
  const auto at = static_cast<double>(completed);
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const auto total = static_cast<double>(schedule.total_steps);
  if (schedule.kind == ScheduleKind::cosine_warmup_with_min_lr)
    return cosine_one_ahead(schedule, at);
  if (schedule.kind == ScheduleKind::warmup_stable_decay) return warmup_stable_decay(schedule, at);
  if (completed < schedule.warmup_steps) return at / std::max(1.0, warmup);
  const double decay_steps = std::max(1.0, total - warmup);
  const double progress = (at - warmup) / decay_steps;
  const auto cosine = [&](double half_waves) {
    return 0.5 * (1 + std::cos(std::numbers::pi * half_waves * (at - warmup) / decay_steps));
  };
  switch (schedule.kind) {
    case ScheduleKind::linear:
      return std::max(0.0, (total - at) / decay_steps);
    case ScheduleKind::cosine:
      return std::max(0.0, cosine(2 * argument(schedule, "num_cycles", 0.5)));
    case ScheduleKind::cosine_with_min_lr:
      return above_least(cosine(2 * argument(schedule, "num_cycles", 0.5)), least_factor(schedule));
    case ScheduleKind::constant:
    case ScheduleKind::cosine_warmup_with_min_lr:  // above
    case ScheduleKind::warmup_stable_decay:
      return 1;
    case ScheduleKind::polynomial: {
      const double end = argument(schedule, "lr_end", kEndRate);
      const double left = std::pow(std::max(0.0, 1 - progress), argument(schedule, "power", 1));
      return ((schedule.learning_rate - end) * left + end) / schedule.learning_rate;
    }
    case ScheduleKind::cosine_with_restarts: {
      if (progress >= 1) return 0;
      const double cycles = argument(schedule, "num_cycles", 1) * progress;
      return 0.5 * (1 + std::cos(std::numbers::pi * (cycles - std::floor(cycles))));
    }
    case ScheduleKind::inverse_sqrt: {
      const double timescale =
          argument(schedule, "timescale", schedule.warmup_steps > 0 ? warmup : kTimescale);
      return 1 / std::sqrt((at + (timescale - warmup)) / timescale);
    }
  }
  return 1;
}

}  // namespace snug::optim
