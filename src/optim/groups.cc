// SPDX-License-Identifier: Apache-2.0
#include "optim/groups.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/ascii.h"
#include "base/listed.h"
#include "base/stop.h"
#include "base/wildcard.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), ascii::is_digit);
}

// "l1" of "weight_ih_l1" and "weight_ih_l1_reverse"; empty where the piece names no level.
std::string level_of(std::string_view piece) {
  const std::string_view reverse = "_reverse";
  if (piece.ends_with(reverse)) piece.remove_suffix(reverse.size());
  const size_t at = piece.rfind("_l");
  if (at == std::string_view::npos || !is_number(piece.substr(at + 2))) return {};
  return std::string(piece.substr(at + 1));
}

// What names the layer of a parameter; empty where nothing does.
std::string unit_of(const std::string& name) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view piece = std::string_view(name).substr(begin, end - begin);
    if (is_number(piece)) return name.substr(0, end);
    if (const std::string level = level_of(piece); !level.empty())
      return name.substr(0, begin) + level;
    begin = end + 1;
  }
  return {};
}

[[noreturn]] void refuse(const std::string& pattern, const std::string& what,
                         const std::string& hint) {
  throw Error(ErrorCode::bad_config, "param_groups", "the pattern '" + pattern + "' " + what, hint);
}

// The first rule of each name, or null.
std::vector<const GroupRule*> rules_of(const std::vector<std::string>& names,
                                       const std::vector<GroupRule>& rules) {
  std::vector<const GroupRule*> found(names.size(), nullptr);
  for (const GroupRule& rule : rules) {
    bool matches = false;
    bool wins = false;
    for (size_t i = 0; i < names.size(); ++i) {
      stop_point();
      if (!matches_wildcard(rule.match, names[i])) continue;
      matches = true;
      if (found[i] != nullptr) continue;
      found[i] = &rule;
      wins = true;
    }
    if (!matches) refuse(rule.match, "matches no weight of the model", names_hint(names));
    if (!wins)
      refuse(rule.match, "comes after patterns that match all its weights",
             "put it before them: the first match wins");
  }
  return found;
}

}  // namespace

std::vector<int64_t> layers_of(const std::vector<std::string>& names) {
  std::unordered_map<std::string, int64_t> layer_of;  // by unit
  std::vector<int64_t> layers;
  // Names that are of no layer, and stand behind the beginning of the newest. Where a layer ends
  // says nothing: adapters stand behind the head, with the names of the layers that they are in.
  std::vector<size_t> behind;
  for (const std::string& name : names) {
    stop_point();
    std::string unit = unit_of(name);
    const auto newest = static_cast<int64_t>(layer_of.size());
    if (unit.empty()) {
      behind.push_back(layers.size());
      layers.push_back(newest);
      continue;
    }
    const auto [place, is_new] = layer_of.try_emplace(std::move(unit), newest + 1);
    if (is_new) behind.clear();
    layers.push_back(place->second);
  }
  if (layer_of.empty()) return layers;
  for (const size_t i : behind) ++layers[i];
  return layers;
}

int64_t numbered_layers(const std::vector<std::string>& names) {
  std::set<std::string> units;
  for (const std::string& name : names) {
    stop_point();
    if (std::string unit = unit_of(name); !unit.empty()) units.insert(std::move(unit));
  }
  return static_cast<int64_t>(units.size());
}

void check_groups(const GroupRules& rules, const std::vector<std::string>& trained) {
  for (const GroupRule& rule : rules.rules) {
    const bool is_trained =
        std::any_of(trained.begin(), trained.end(),
                    [&](const std::string& name) { return matches_wildcard(rule.match, name); });
    if (!is_trained) refuse(rule.match, "matches only weights that are frozen", "omit it");
  }
}

ParameterGroups assign_groups(const std::vector<std::string>& names, const GroupRules& rules) {
  ParameterGroups groups{.rates = {rules.learning_rate}, .members = {}};
  std::map<double, size_t> place_of = {{rules.learning_rate, 0}};  // among the rates
  const std::vector<const GroupRule*> matched = rules_of(names, rules.rules);
  const bool decays = rules.layer_decay != 1 && !names.empty();
  const std::vector<int64_t> layers = decays ? layers_of(names) : std::vector<int64_t>();
  const int64_t top = decays ? *std::max_element(layers.begin(), layers.end()) : 0;
  for (size_t i = 0; i < names.size(); ++i) {
    stop_point();
    const GroupRule* rule = matched[i];
    double rate = rules.learning_rate;
    if (decays) rate *= std::pow(rules.layer_decay, static_cast<double>(top - layers[i]));
    if (rule != nullptr && rule->learning_rate) rate = *rule->learning_rate;
    const auto [place, is_new] = place_of.try_emplace(rate, groups.rates.size());
    if (is_new) groups.rates.push_back(rate);
    GroupMember member{.rate = place->second, .weight_decay = {}};
    if (rule != nullptr) member.weight_decay = rule->weight_decay;
    groups.members[names[i]] = member;
  }
  return groups;
}

std::string names_hint(const std::vector<std::string>& names) {
  return "the weights are " + joined(names, kListed) + "; `snug inspect --weights` lists a run's";
}

}  // namespace snug::optim
