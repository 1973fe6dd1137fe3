// SPDX-License-Identifier: Apache-2.0
#include "session/resolve.h"

#include <algorithm>
#include <utility>

#include "compile/weight_storage.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug::session {
namespace {

constexpr size_t kMostPrograms = 256;

[[noreturn]] void refuse_option(const std::string& option, const std::string& what,
                                const std::string& hint) {
  throw Error(ErrorCode::bad_config, option, what, hint);
}

HyperValues settings_of(const TrainSpec& spec) {
  HyperValues settings;
  for (const auto& [name, value] : spec.optim_args) settings.set(name, value);
  return settings;
}

optim::GroupRules groups_of(const TrainSpec& spec) {
  optim::GroupRules groups{
      .learning_rate = spec.learning_rate, .rules = {}, .layer_decay = spec.layerwise_lr_decay};
  for (const ParameterGroup& group : spec.param_groups)
    groups.rules.push_back({group.match, group.learning_rate, group.weight_decay});
  return groups;
}

// What is said for a single length is true for several: they are above 0 and rise.
void check_lengths(const std::vector<Lengths>& programs) {
  if (programs.empty()) return;
  if (programs.size() > kMostPrograms)
    refuse_option("lengths",
                  std::to_string(programs.size()) + " programs are more than " +
                      std::to_string(kMostPrograms),
                  "give fewer lengths, or those combinations alone that your rows have");
  const Lengths& longest = programs.back();
  for (auto each = programs.begin(); each != programs.end(); ++each) {
    const auto by_name = each->by_name();
    const bool is_any_below = std::any_of(by_name.begin(), by_name.end(),
                                          [](const auto& length) { return length.second < 1; });
    if (each->empty() || is_any_below || (each->of() != 0 && each->has_names()))
      refuse_option("lengths", "a program of length " + to_string(*each),
                    "give {32, 64, 128}, for example, or lengths above 0 that have names");
    if (!longest.holds(*each) || by_name.size() != longest.by_name().size())
      refuse_option("lengths",
                    "the last program, of length " + to_string(longest) +
                        ", does not hold rows of length " + to_string(*each),
                    "let lengths rise, have the same names, and end with the longest of each");
    const auto before = std::find_if(programs.begin(), each,
                                     [&](const Lengths& earlier) { return earlier.holds(*each); });
    if (before != each)
      refuse_option("lengths",
                    "no batch would run in the program of length " + to_string(*each) +
                        ": that of length " + to_string(*before) + " comes before it",
                    "let lengths rise");
  }
}

optim::StateStorage storage_of(const TrainSpec& spec) {
  return optim::make_storage(spec.optim_bits, spec.optim_codec, spec.optim_bits_overrides);
}

// f32, or what one of two switches that exclude each other asks for.
DType half_of(const char* names, bool bf16, bool fp16) {
  if (bf16 && fp16) refuse_option(names, "both are asked for", "give one of them");
  return bf16 ? DType::bf16 : fp16 ? DType::f16 : DType::f32;
}

DType dtype_of(const PrecisionRule& rule) {
  for (const auto& [name, dtype] :
       {std::pair{"float32", DType::f32}, {"bfloat16", DType::bf16}, {"float16", DType::f16}}) {
    if (rule.dtype == name) return dtype;
  }
  refuse_option("precision_overrides", "'" + rule.dtype + "' is no type",
                "give float32, bfloat16 or float16");
}

compile::FusionLevel level_of(const char* option, const std::string& word) {
  const std::optional<compile::FusionLevel> level = compile::fusion_level_of(word);
  if (!level) refuse_option(option, "'" + word + "' is no level", "give full, fusible or off");
  return *level;
}

compile::FusionLevels fusion_of(const TrainSpec& spec) {
  compile::FusionLevels levels{.level = level_of("fusion", spec.fusion)};
  for (const FusionRule& rule : spec.fusion_overrides)
    levels.overrides.push_back({rule.match, level_of("fusion_overrides", rule.level)});
  const auto& rules = levels.overrides;
  if (!rules.empty() && std::all_of(rules.begin(), rules.end(),
                                    [&](const auto& rule) { return rule.level == levels.level; }))
    refuse_option("fusion_overrides", "every op is at the level " + spec.fusion + " anyway",
                  "give another level to some, or omit it");
  return levels;
}

compile::ForwardChanges changes_of(const TrainSpec& spec) {
  compile::ForwardChanges changes;
  changes.lora = spec.lora;
  changes.storage = compile::make_weight_storage(spec.freeze, spec.frozen_dtype, spec.weight_dtype);
  changes.training.dtype = half_of("bf16, fp16", spec.bf16, spec.fp16);
  for (const PrecisionRule& rule : spec.precision_overrides)
    changes.training.overrides.push_back({rule.match, dtype_of(rule)});
  changes.evaluation = changes.training;
  changes.evaluation.refuses_unused = spec.only_evaluation;
  const DType of_evaluation =
      half_of("bf16_full_eval, fp16_full_eval", spec.bf16_full_eval, spec.fp16_full_eval);
  if (of_evaluation != DType::f32) changes.evaluation.dtype = of_evaluation;
  return changes;
}

// What "auto" stands for is decided here: gradients in f16 overflow, and vanish, without one.
optim::LossScaleRule loss_scale_of(const TrainSpec& spec, const compile::MixedPrecision& training) {
  const bool has_f16 = training.dtype == DType::f16 ||
                       std::any_of(training.overrides.begin(), training.overrides.end(),
                                   [](const auto& rule) { return rule.dtype == DType::f16; });
  const bool is_open = spec.loss_scale == "auto" && has_f16 && !spec.only_gradients;
  return optim::make_loss_scale(is_open ? "dynamic" : spec.loss_scale, spec.loss_scale_min);
}

// What goes beyond one number: sizes that do not go together.
void check_sizes(const TrainSpec& spec) {
  if (spec.memory.bytes < 0)
    refuse_option("memory", std::to_string(spec.memory.bytes) + " bytes are below 0",
                  "give a number of bytes, for example parse_memory(\"64MiB\")");
  if (spec.micro_batch_size > spec.batch_rows)
    refuse_option("micro_batch_size",
                  std::to_string(spec.micro_batch_size) + " is not within the batch of " +
                      std::to_string(spec.batch_rows),
                  "give 0 for the planner's choice, or at most batch_rows");
  if (optim::has_end(spec.lr_scheduler_type) && spec.max_steps < 1)
    refuse_option("max_steps", "a falling learning rate needs to know where it ends",
                  "give max_steps");
  if (spec.only_gradients && spec.only_evaluation)
    refuse_option("only_evaluation", "a session without training programs has no gradients",
                  "omit only_gradients");
  check_lengths(spec.lengths);
}

// What refines a switch that is off would change nothing.
void check_effect(const ResolvedSpec& resolved) {
  const TrainSpec& spec = resolved.spec;
  const optim::StateStorage& storage = resolved.recipe.states;
  if (!optim::has_codes(storage.bits, storage.overrides)) {
    const char* hint = "give optim_bits 8 too, or omit it";
    if (!spec.optim_bits_overrides.empty())
      refuse_option("optim_bits_overrides", "every state is in 32 bits anyway", hint);
    if (spec.optim_codec != TrainSpec().optim_codec)
      refuse_option("optim_codec", "no state is in 8 bits", hint);
  }
  if (!spec.lora.is_on() && spec.lora != LoraOptions())
    refuse_option("lora", "no weight has an adapter", "name linear maps in lora.match, or omit it");
  const compile::MixedPrecision& training = resolved.changes.training;
  const compile::MixedPrecision& evaluation = resolved.changes.evaluation;
  const std::vector<compile::PrecisionOverride>& rules = training.overrides;
  const bool is_any_narrow = training.dtype != DType::f32 || evaluation.dtype != DType::f32 ||
                             std::any_of(rules.begin(), rules.end(),
                                         [](const auto& rule) { return rule.dtype != DType::f32; });
  if (!rules.empty() && !is_any_narrow)
    refuse_option("precision_overrides", "everything is in float32 anyway",
                  "give bf16 or fp16 too, or omit it");
}

}  // namespace

ResolvedSpec resolve(const TrainSpec& spec) {
  // One after the other, since any may throw: GCC 12 destroys members of a braced value that it has
  // not made yet.
  ResolvedSpec resolved;
  resolved.spec = spec;
  resolved.changes = changes_of(spec);
  resolved.fusion = fusion_of(spec);
  resolved.loss_scale = loss_scale_of(spec, resolved.changes.training);
  compile::Recipe& recipe = resolved.recipe;
  recipe.given = settings_of(spec);
  recipe.optimizer = optim::make_options(spec.optim, recipe.given, spec.weight_decay);
  recipe.max_grad_norm = spec.max_grad_norm;
  recipe.groups = groups_of(spec);
  recipe.freeze = spec.freeze;
  recipe.updates = !spec.only_gradients;
  recipe.states = storage_of(spec);
  recipe.scaling = resolved.loss_scale.scaling;
  resolved.schedule = optim::schedule_of(spec);
  return resolved;
}

ResolvedSpec resolve_checked(const TrainSpec& spec) {
  spec::check_ranges(spec);
  check_sizes(spec);
  ResolvedSpec resolved = resolve(spec);
  check_effect(resolved);
  return resolved;
}

}  // namespace snug::session
