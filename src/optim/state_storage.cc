// SPDX-License-Identifier: Apache-2.0
#include "optim/state_storage.h"

#include <algorithm>
#include <utility>

#include "base/wildcard.h"
#include "optim/groups.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

// The first rule that matches, or the end.
auto rule_of(const StateStorage& storage, const std::string& parameter) {
  return std::find_if(
      storage.overrides.begin(), storage.overrides.end(),
      [&](const StateBits& each) { return matches_wildcard(each.match, parameter); });
}

// The op of a step with coded states has as many of them as the optimizer has states.
bool has_states_like(const Options& options, const Shape& shape) {
  const std::vector<StateSpec> states = (*options.optimizer->states)(options.settings, shape);
  return !states.empty() && std::all_of(states.begin(), states.end(), [&](const StateSpec& state) {
    return state.shape == shape;
  });
}

void check_bits(const char* option, int64_t bits) {
  if (bits != 32 && bits != 8)
    throw Error(ErrorCode::bad_config, option, std::to_string(bits) + " bits for a state",
                "give 32 or 8");
}

}  // namespace

StateStorage make_storage(int64_t bits, const std::string& codec,
                          std::vector<StateBits> overrides) {
  check_bits("optim_bits", bits);
  for (const StateBits& rule : overrides) check_bits("optim_bits_overrides", rule.bits);
  for (const StateCodec each : {StateCodec::adaptive, StateCodec::bnb}) {
    if (codec == word_of(each))
      return {.bits = bits, .codec = each, .overrides = std::move(overrides)};
  }
  throw Error(ErrorCode::bad_config, "optim_codec", "there is no codec '" + codec + "'",
              "give default or bnb");
}

const char* word_of(StateCodec codec) { return codec == StateCodec::bnb ? "bnb" : "default"; }

std::optional<StateCodec> codec_for(const StateStorage& storage, const Options& options,
                                    const std::string& parameter, const Shape& shape,
                                    bool is_table) {
  if (!has_states_like(options, shape)) return std::nullopt;
  const auto rule = rule_of(storage, parameter);
  const bool is_coded =
      rule != storage.overrides.end()
          ? rule->bits == 8
          : storage.bits == 8 && !is_table && element_count(shape) >= kFewestCodedElements;
  return is_coded ? std::optional(storage.codec) : std::nullopt;
}

bool has_codes(int64_t bits, std::span<const StateBits> overrides) {
  return bits == 8 || std::any_of(overrides.begin(), overrides.end(),
                                  [](const StateBits& rule) { return rule.bits == 8; });
}

void check_storage(const StateStorage& storage, const Options& options,
                   const std::vector<std::string>& names, const std::vector<StateOwner>& owners) {
  constexpr int64_t kAnySize = 64;
  const bool may_be_coded = has_codes(storage.bits, storage.overrides);
  if (may_be_coded && !has_states_like(options, {kAnySize, kAnySize}))
    throw Error(ErrorCode::bad_config, "optim_bits",
                *options.optimizer->name +
                    " has no states of a weight's size: there is nothing to store in 8 bits",
                "omit it, or give another optim (adamw, lion)");
  for (const StateBits& rule : storage.overrides) {
    const bool is_used = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches_wildcard(rule.match, name);
    });
    if (!is_used)
      throw Error(ErrorCode::bad_config, "optim_bits_overrides",
                  "the pattern '" + rule.match + "' matches no weight of the model",
                  names_hint(names));
    const bool is_trained = std::any_of(owners.begin(), owners.end(), [&](const StateOwner& owner) {
      return matches_wildcard(rule.match, owner.name);
    });
    if (!is_trained)
      throw Error(ErrorCode::bad_config, "optim_bits_overrides",
                  "every weight that the pattern '" + rule.match + "' matches is frozen",
                  "omit it: what is frozen has no states");
    const bool wins = std::any_of(owners.begin(), owners.end(), [&](const StateOwner& owner) {
      const auto first = rule_of(storage, owner.name);
      return first != storage.overrides.end() && &*first == &rule;
    });
    if (!wins)
      throw Error(ErrorCode::bad_config, "optim_bits_overrides",
                  "the pattern '" + rule.match +
                      "' comes after patterns that match all its trained weights",
                  "put it before them: the first match wins");
  }
  const bool is_any_coded = std::any_of(owners.begin(), owners.end(), [&](const StateOwner& owner) {
    return codec_for(storage, options, owner.name, owner.shape, owner.is_table).has_value();
  });
  if (may_be_coded && !is_any_coded)
    throw Error(ErrorCode::bad_config, "optim_bits",
                "no state would be in 8 bits: each weight that is trained has fewer than " +
                    std::to_string(kFewestCodedElements) + " elements, or is a table of embeddings",
                "omit it, or name weights in optim_bits_overrides");
}

}  // namespace snug::optim
