// SPDX-License-Identifier: Apache-2.0
#include "choose/levers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/shell.h"
#include "choose/sizes.h"
#include "compile/adapters.h"
#include "compile/compile.h"
#include "ops/optimizer/optimizers.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug::choose {

using compile::Weight;

namespace {

constexpr int64_t kShortestLength = 8;  // and lengths are multiples of it
constexpr size_t kMostPatterns = 32;    // of one lever, which somebody is to read

using Request = RunPlanRequest;

// A switch that is on stands without its value.
bool is_bare(const std::string& key) {
  const spec::KindInfo& kind = spec::field_of_key(key).kind;
  return kind.is_switch && !kind.has_auto;
}

std::string words_of(const Request& request, const LeverKeys& keys) {
  std::string words;
  for (const auto& [key, value] : keys) {
    const std::string text = is_bare(key) ? "" : shell_word(value);
    words += (words.empty() ? "" : " ") + spec::option_words(request.words, key, text);
  }
  return words;
}

Lever::Setting setting_of(const Request& request, const LeverKeys& keys) {
  return {words_of(request, keys), keys,
          [keys](const Request& from) { return from.changed(keys); }};
}

// Whether it leads to other weights than the run as it is, and under which word one key may be
// taken, the table says.
Lever lever_of(const Request& request, const std::string& part, const LeverKeys& keys) {
  Lever lever{.settings = {setting_of(request, keys)}, .part = part};
  for (const auto& key : keys) {
    const LeverKeys& taken = request.taken_levers;
    if (std::find(taken.begin(), taken.end(), key) == taken.end())
      lever.changes_result |= spec::field_of_key(key.first).changes_result;
  }
  if (keys.size() == 1) lever.word = spec::lever_word(keys.front().first, keys.front().second);
  return lever;
}

// The names up to their first dot, in the order of the model, but those that hold the head; empty
// where that is all there is.
std::string all_but_the_head(const std::vector<Weight>& weights) {
  std::vector<std::string> parts;
  std::set<std::string> heads;
  for (const Weight& weight : weights) {
    if (!weight.is_parameter()) continue;
    const std::string part = weight.value.name.substr(0, weight.value.name.find('.'));
    if (weight.is_head) heads.insert(part);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    if (parts.size() > kMostPatterns) return {};
  }
  if (heads.empty()) return {};  // nothing would be left to train
  std::string patterns;
  for (const std::string& part : parts) {
    if (heads.count(part) == 0) patterns += (patterns.empty() ? "" : ",") + part + ".*";
  }
  return patterns;
}

// Weights that stay as they are, stored in fewer bits.
constexpr std::array kFrozenTypes = {"bfloat16", "int8"};

// What is trained: less of the weights, or adapters in place of them; where that is not enough, the
// frozen ones are stored in fewer bits.
void add_trained(const Request& request, std::vector<Lever>& levers) {
  const std::vector<Weight> weights = compile::weights_of(request.network);
  const auto add = [&](const LeverKeys& keys) {
    levers.push_back(lever_of(request, "trained", keys));
    for (const char* dtype : kFrozenTypes) {
      LeverKeys fewer_bits = keys;
      fewer_bits.emplace_back("frozen_dtype", dtype);
      levers.back().settings.push_back(setting_of(request, fewer_bits));
    }
  };
  const bool has_embeddings = std::any_of(weights.begin(), weights.end(), [](const Weight& weight) {
    return weight.is_parameter() && weight.value.name.find("embeddings") != std::string::npos;
  });
  if (has_embeddings) add({{"freeze", "*embeddings*"}});
  if (const std::string patterns = all_but_the_head(weights); !patterns.empty())
    add({{"freeze", patterns}});
  if (!request.network.coupling.empty()) return;  // running statistics belong to no adapter
  const auto forward = compile::forward_of(
      request.network,
      {.rows = 1, .lengths = request.network.shortest, .training = false, .micro_batches = 1});
  const std::vector<std::string> maps =
      compile::linear_map_patterns(forward->graph, request.network);
  if (maps.empty() || maps.size() > kMostPatterns) return;
  std::string list;
  // Behind the commas is a blank, where a terminal breaks a long line: in the quotes that stay
  // around the list the end of a line can be copied.
  for (const std::string& map : maps) list += (list.empty() ? "\"" : ", \"") + map + "\"";
  const std::string lora = "{\"match\":[" + list + "]}";
  add({{"lora", lora}});
  levers.push_back(lever_of(request, "trained", {{"lora", lora}, {"frozen_dtype", "int8"}}));
  levers.back().is_hint = false;  // a setting of the one before
}

// Those of the run's keys that were taken as levers and have one of these names: a run with a hint
// takes its levers anew, so what a hint builds on is a part of it.
LeverKeys taken_of(const Request& request, const std::set<std::string>& names) {
  LeverKeys taken;
  for (const auto& lever : request.taken_levers) {
    if (names.count(lever.first) > 0) taken.push_back(lever);
  }
  return taken;
}

// What is frozen already.
void add_frozen_types(const Request& request, std::vector<Lever>& levers) {
  if (request.has_coded_frozen) return;
  Lever lever{.changes_result = true, .part = "frozen_dtype"};
  for (const char* dtype : kFrozenTypes) {
    LeverKeys keys = taken_of(request, {"freeze", "lora"});
    keys.emplace_back("frozen_dtype", dtype);
    lever.settings.push_back(setting_of(request, keys));
  }
  levers.push_back(std::move(lever));
}

// Nothing where these hyper-parameters do not go together in that optimizer.
std::optional<optim::Options> options_of(const Optimizer& optimizer,
                                         const compile::Recipe& recipe) {
  try {
    return optim::make_options(*optimizer.name, recipe.given, recipe.optimizer.weight_decay);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_config) throw;
    return std::nullopt;
  }
}

// Whether gradients wait for their norm in memory or are made twice.
void add_two_passes(const Request& request, std::vector<Lever>& levers) {
  if (!request.recipe.waits_for_norm()) return;
  for (const bool has_two_passes : {true, false}) {
    if (request.two_pass_clip == has_two_passes) continue;
    // Without clipping an update waits for a dynamic loss scale only, which fp16 brings.
    LeverKeys keys;
    if (has_two_passes && request.recipe.max_grad_norm == 0) keys = taken_of(request, {"fp16"});
    keys.emplace_back("two_pass_clip", has_two_passes ? "true" : "false");
    levers.push_back(lever_of(request, "two_pass_clip", keys));
    levers.back().is_hint = request.two_pass_clip.has_value();
  }
}

// States in 8 bits, where the optimizer has any of a weight's size.
void add_state_bits(const Request& request, std::vector<Lever>& levers) {
  const compile::Recipe& recipe = request.recipe;
  if (recipe.states.bits == 8) return;
  constexpr int64_t kAnySize = 64;
  optim::StateStorage storage = recipe.states;
  storage.bits = 8;
  if (!optim::codec_for(storage, recipe.optimizer, "", {kAnySize, kAnySize}, false)) return;
  levers.push_back(lever_of(request, "states", {{"optim_bits", "8"}}));
}

void add_precision(const Request& request, std::vector<Lever>& levers) {
  if (request.has_16_bits) return;
  for (const char* word : {"bf16", "fp16"})
    levers.push_back(lever_of(request, "precision", {{word, "true"}}));
  levers.back().is_hint = false;  // the bytes of bf16
}

// Trained weights in 24 or 16 bits.
void add_weights(const Request& request, std::vector<Lever>& levers) {
  if (request.has_coded_weights) return;
  for (const char* word : {"bf16x8", "bfloat16"}) {
    levers.push_back(lever_of(request, "weights", {{"weight_dtype", word}}));
    // 8 bits of the states are worth more, and change less.
    levers.back().is_hint = request.recipe.states.bits == 8;
  }
}

// How many numbers the states of a weight have.
int64_t state_elements(const optim::Options& options) {
  constexpr int64_t kAnySize = 64;
  int64_t elements = 0;
  for (const auto& state : optim::states_of(options, "any", {kAnySize, kAnySize}))
    elements += element_count(state.type);
  return elements;
}

// Those with fewer states, where they take what the user set; a refusal names those without any.
void add_optimizers(const Request& request, std::vector<Lever>& levers) {
  const compile::Recipe& recipe = request.recipe;
  for (const Optimizer* each : optimizers()) {
    if (each == recipe.optimizer.optimizer) continue;
    const auto takes = [&](const auto& given) {
      return std::any_of(each->parameters->begin(), each->parameters->end(),
                         [&](const HyperParameter& its) { return its.name == given.first; });
    };
    if (!std::all_of(recipe.given.begin(), recipe.given.end(), takes)) continue;
    const std::optional<optim::Options> options = options_of(*each, recipe);
    if (!options || state_elements(*options) >= state_elements(recipe.optimizer)) continue;
    levers.push_back(lever_of(request, "optim", {{"optim", *each->name}}));
    levers.back().is_hint = state_elements(*options) == 0;
  }
}

// Three quarters, a half, three eighths, ... of the longest row.
std::vector<int64_t> shorter_lengths(int64_t longest) {
  std::vector<int64_t> lengths;
  const auto add = [&](int64_t length) {
    length = length / kShortestLength * kShortestLength;
    if (length >= kShortestLength && length < longest &&
        (lengths.empty() || length < lengths.back()))
      lengths.push_back(length);
  };
  for (int64_t parts = 1; longest / parts >= kShortestLength; parts *= 2) {
    add(longest * 3 / (4 * parts));
    add(longest / (2 * parts));
  }
  return lengths;
}

void add_sizes(const Request& request, std::vector<Lever>& levers) {
  if (!request.resized) return;
  // A batch that may be split needs no more than its smallest part, however large it is.
  const bool is_whole = micro_batches_of(request) == std::vector{request.global_batch};
  if (is_whole && request.global_batch > 1 && (request.micro_batch == 0 || !request.trains)) {
    const std::string key = request.trains ? "train_batch_size" : "eval_batch_size";
    Lever batch{.changes_result = request.trains, .part = key, .is_compared = false};
    for (int64_t size = request.global_batch - 1; size > 0; --size) {
      batch.settings.push_back(
          {spec::option_words(request.words, key, std::to_string(size)),
           {{key, std::to_string(size)}},
           [size](const Request& from) { return from.resized(from, from.lengths.back(), size); }});
    }
    levers.push_back(std::move(batch));
  }
  if (request.network.shortest.empty()) return;
  for (const auto& [name, longest] : request.lengths.back().by_name()) {
    Lever length{.changes_result = true, .part = "length " + name, .is_compared = false};
    for (const int64_t each : shorter_lengths(longest)) {
      LeverKeys keys;
      if (name.empty()) keys.emplace_back("max_seq_length", std::to_string(each));
      length.settings.push_back({spec::length_words(request.words, name, each), keys,
                                 [name = name, each](const Request& from) {
                                   return from.resized(from,
                                                       Lengths(from.lengths.back()).set(name, each),
                                                       from.global_batch);
                                 }});
    }
    if (!length.settings.empty()) levers.push_back(std::move(length));
  }
}

// How the batch is split, and what is recomputed: free again where the request fixes them, and
// fixed, for the table.
void add_plan_choices(const Request& request, std::vector<Lever>& levers) {
  const std::pair<std::string, std::string> free_split = {"micro_batch_size", "auto"};
  const std::pair<std::string, std::string> free_strategy = {"recompute", "auto"};
  const bool is_split_fixed = request.micro_batch > 0 && request.global_batch > 1;
  const bool is_strategy_fixed = !request.strategy.empty();
  if (is_split_fixed) levers.push_back(lever_of(request, free_split.first, {free_split}));
  if (is_strategy_fixed) levers.push_back(lever_of(request, free_strategy.first, {free_strategy}));
  if (is_split_fixed && is_strategy_fixed)
    levers.push_back(lever_of(request, free_split.first, {free_split, free_strategy}));
  const auto add_compared = [&](const std::string& key, const std::string& value) {
    levers.push_back(lever_of(request, key, {{key, value}}));
    levers.back().is_hint = false;
  };
  const std::vector<int64_t> sizes = micro_batches_of(request);
  if (!is_split_fixed && sizes.size() > 1) {
    add_compared(free_split.first, std::to_string(sizes.front()));
    add_compared(free_split.first, std::to_string(sizes.back()));
  }
  if (is_strategy_fixed) return;
  for (const char* strategy : {"none", "all"}) add_compared(free_strategy.first, strategy);
}

}  // namespace

std::vector<Lever> levers_of(const RunPlanRequest& request) {
  std::vector<Lever> levers;
  if (request.saved != nullptr) return levers;  // a saved plan has the one budget that it needs
  if (!request.trains || !request.changed) {
    add_sizes(request, levers);
    return levers;
  }
  add_plan_choices(request, levers);
  add_two_passes(request, levers);
  if (!coupling_of(request).empty() && !request.allow_coupled_split && request.global_batch > 1)
    levers.push_back(lever_of(request, "split", {{"allow_batch_norm_split", "true"}}));
  add_state_bits(request, levers);
  add_precision(request, levers);
  add_weights(request, levers);
  add_optimizers(request, levers);
  const bool waits_anyway = request.recipe.scaling == optim::LossScaling::dynamic;
  if (request.recipe.max_grad_norm > 0 && !waits_anyway)
    levers.push_back(lever_of(request, "clip", {{"max_grad_norm", "0"}}));
  const bool is_frozen = !request.recipe.freeze.empty() || request.network.is_frozen;
  is_frozen ? add_frozen_types(request, levers) : add_trained(request, levers);
  add_sizes(request, levers);  // last: they go into whatever the others made of the request
  return levers;
}

std::vector<LeverChoice> choices_among(const std::vector<const Lever*>& levers) {
  std::vector<std::string> parts;
  for (const Lever* lever : levers) {
    if (std::find(parts.begin(), parts.end(), lever->part) == parts.end())
      parts.push_back(lever->part);
  }
  std::vector<LeverChoice> choices = {{}};
  for (const std::string& part : parts) {
    const std::vector<LeverChoice> without = choices;
    for (const Lever* lever : levers) {
      if (lever->part != part) continue;
      for (LeverChoice choice : without) {
        const LeverKeys& keys = lever->settings.front().keys;
        choice.keys.insert(choice.keys.end(), keys.begin(), keys.end());
        choice.changes_result |= lever->changes_result;
        ++choice.levers;
        choices.push_back(std::move(choice));
      }
    }
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const auto& a, const auto& b) { return a.levers < b.levers; });
  return choices;
}

}  // namespace snug::choose
