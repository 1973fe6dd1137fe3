// SPDX-License-Identifier: Apache-2.0
#include "train/run_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/numbers.h"
#include "ops/optimizer/optimizers.h"
#include "optim/schedule.h"
#include "optim/state_storage.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug::train {

namespace {

constexpr std::string_view kAuto = "auto";

// What a key of the configuration holds for a hyper-parameter.
std::optional<double> value_of(const RunConfig& config, const std::string& key) {
  if (key.empty()) return std::nullopt;
  const std::string text = config.get(key);
  if (text == kAuto) return std::nullopt;
  if (text == "false") return 0;
  if (text == "true") return 1;
  return number_in<double>(text);
}

bool has_key(const Optimizer& optimizer, const std::string& key) {
  return parameter_of_key(optimizer, key) != nullptr;
}

// Every key of a hyper-parameter of any optimizer.
std::set<std::string> hyper_keys() {
  std::set<std::string> keys;
  for (const Optimizer* optimizer : optimizers()) {
    for (const HyperParameter& each : *optimizer->parameters) {
      if (!each.key.empty()) keys.insert(each.key);
    }
  }
  return keys;
}

// A value of 0 asks for nothing where it is an optimizer's default: no momentum, no flag.
bool asks_for_nothing(const std::string& key, double value) {
  return value == 0 && std::any_of(optimizers().begin(), optimizers().end(), [&](const auto* each) {
           const HyperParameter* its = parameter_of_key(*each, key);
           return its != nullptr && its->default_value == 0;
         });
}

void refuse_foreign_keys(const RunConfig& config, const Optimizer& optimizer) {
  for (const std::string& key : hyper_keys()) {
    const std::optional<double> value = value_of(config, key);
    if (has_key(optimizer, key) || !value || asks_for_nothing(key, *value)) continue;
    std::string users;
    for (const Optimizer* each : optimizers()) {
      if (has_key(*each, key)) users += (users.empty() ? "" : ", ") + *each->name;
    }
    throw Error(ErrorCode::bad_config, key, config.optim + " has no use for it",
                "omit it, or set optim to one of: " + users);
  }
}

// "name=value" for a hyper-parameter that has no key.
HyperValues::Entry read_argument(const std::string& text, const Optimizer& optimizer) {
  const auto fail = [&](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::bad_config, "optim_args", "'" + text + "' " + what, hint);
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) fail("is not name=value", "write, for example, name=0.5");
  const std::string name = text.substr(0, equals);
  const std::optional<double> value = number_in<double>(text.substr(equals + 1));
  if (!value) fail("has no number after the =", "write name=0.5");
  std::string names;
  for (const HyperParameter& each : *optimizer.parameters) {
    if (each.name == name && !each.key.empty()) fail("has a key of its own", "give " + each.key);
    if (each.name == name) return {name, *value};
    if (each.key.empty()) names += (names.empty() ? "" : ", ") + each.name;
  }
  fail("names no hyper-parameter of " + *optimizer.name,
       names.empty() ? "omit optim_args" : "there are " + names);
  return {};
}

HyperValues given_settings(const RunConfig& config, const Optimizer& optimizer) {
  HyperValues given;
  for (const HyperParameter& each : *optimizer.parameters) {
    const std::optional<double> value = value_of(config, each.key);
    const bool is_default_flag = each.range == HyperRange::flag && value == 0.0;
    if (value && !is_default_flag) given.set(each.name, *value);
  }
  for (const std::string& text : config.optim_args) {
    const HyperValues::Entry argument = read_argument(text, optimizer);
    const bool is_taken = std::any_of(given.begin(), given.end(), [&](const auto& other) {
      return other.first == argument.first;
    });
    if (is_taken)
      throw Error(ErrorCode::bad_config, "optim_args", argument.first + " is given twice",
                  "give it once");
    given.set(argument.first, argument.second);
  }
  return given;
}

}  // namespace

optim::Options optimizer_of(const RunConfig& config) {
  const Optimizer& optimizer = *optim::make_options(config.optim).optimizer;
  refuse_foreign_keys(config, optimizer);
  return optim::make_options(config.optim, given_settings(config, optimizer), config.weight_decay);
}

static bool allows(const RunConfig& config, const char* lever) {
  return std::find(config.allow.begin(), config.allow.end(), lever) != config.allow.end();
}

static void take_schedule(const RunConfig& config, int64_t total_steps, TrainSpec& spec) {
  spec.warmup_steps = optim::resolve_warmup(config.warmup_steps, config.warmup_ratio, total_steps);
  spec.max_steps = std::max<int64_t>(total_steps, 1);
}

// What refines a lever that is allowed has no effect where it is not taken.
static void drop_refinements(const RunConfig& config, TrainSpec& spec) {
  if (allows(config, "adam8bit") && !optim::has_codes(spec.optim_bits, spec.optim_bits_overrides)) {
    spec.optim_codec = TrainSpec().optim_codec;
    spec.optim_bits_overrides.clear();
  }
  const bool is_any_narrow =
      spec.bf16 || spec.fp16 || spec.bf16_full_eval || spec.fp16_full_eval ||
      std::any_of(spec.precision_overrides.begin(), spec.precision_overrides.end(),
                  [](const PrecisionRule& rule) { return rule.dtype != "float32"; });
  if (!is_any_narrow && (allows(config, "bf16") || allows(config, "fp16")))
    spec.precision_overrides.clear();
}

TrainSpec training_spec(const RunConfig& config, int64_t total_steps) {
  const HyperValues given = given_settings(config, *optimizer_of(config).optimizer);
  TrainSpec spec = spec::keys_of(config);
  // Empty where the budget decides: the models of the library mark nothing.
  spec.recompute = config.recompute.strategy;
  spec.optim_args = {given.begin(), given.end()};
  take_schedule(config, total_steps, spec);
  drop_refinements(config, spec);
  return spec;
}

TrainSpec evaluation_spec(const RunConfig& config) {
  TrainSpec spec{.memory = config.memory,
                 .micro_batch_size = config.eval_batch_size,
                 .fusion = config.fusion,
                 .fusion_overrides = config.fusion_overrides,
                 .bf16 = config.bf16,
                 .fp16 = config.fp16,
                 .bf16_full_eval = config.bf16_full_eval,
                 .fp16_full_eval = config.fp16_full_eval,
                 .precision_overrides = config.precision_overrides,
                 .only_evaluation = true,
                 .frozen_dtype = config.frozen_dtype,
                 .weight_dtype = config.weight_dtype,
                 .seed = config.seed};
  // Which weights are frozen matters where they are stored in fewer bits.
  if (config.frozen_dtype != "float32") spec.freeze = config.freeze;
  drop_refinements(config, spec);
  return spec;
}

SessionOptions session_options_of(const TrainSpec& spec) {
  SessionOptions options;
  spec::set_spec(spec, options);
  return options;
}

RunConfig with_optimizer_values(const RunConfig& config) {
  const optim::Options optimizer =
      optim::make_options(config.optim, given_settings(config, *find_optimizer(config.optim)));
  RunConfig resolved = config;
  for (const std::string& key : hyper_keys()) {
    if (resolved.get(key) != "false" && resolved.get(key) != "true") resolved.set(key, kAuto);
  }
  for (const HyperParameter& each : *optimizer.optimizer->parameters) {
    if (each.range == HyperRange::flag || each.key.empty()) continue;
    resolved.set(each.key, fmt::format("{}", optimizer.settings.at(each.name)));
  }
  return resolved;
}

double learning_rate_at(const RunConfig& config, int64_t completed, int64_t total_steps) {
  TrainSpec spec = spec::keys_of(config);
  take_schedule(config, total_steps, spec);
  return spec.learning_rate * optim::rate_factor(optim::schedule_of(spec), completed);
}

}  // namespace snug::train
