// SPDX-License-Identifier: Apache-2.0
// Which learning rate and decay each parameter has: groups by name pattern, and rates that fall
// from the last layer to the first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace snug::optim {

struct GroupRule {
  std::string match;  // * matches any text
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
};

struct GroupRules {
  double learning_rate = 0;
  std::vector<GroupRule> rules = {};  // the first that matches a name wins
  double layer_decay = 1;
};

struct GroupMember {
  size_t rate = 0;                     // index into ParameterGroups::rates
  std::optional<double> weight_decay;  // unset: the run's, where the parameter decays
};

struct ParameterGroups {
  std::vector<double> rates;  // distinct highest rates; the first is the run's
  std::map<std::string, GroupMember> members;
};

/// `names` in the order of the model. A rule's rate is taken as it stands; any other parameter has
/// the run's, times layer_decay for every layer above its own. Throws Error{bad_config} at
/// "param_groups" for a pattern that matches nothing, or nothing that earlier ones left.
[[nodiscard]] ParameterGroups assign_groups(const std::vector<std::string>& names,
                                            const GroupRules& rules);

/// Throws Error{bad_config} at "param_groups" for a pattern that matches none of `trained`.
void check_groups(const GroupRules& rules, const std::vector<std::string>& trained);

/// The layer of each parameter from 0. A layer is what shares a name up to its first number
/// (`encoder.layer.3`, `layer2.0`, `features.7`) or is of one level of a recurrent net
/// (`weight_ih_l1`). What comes before the first layer is 0, what comes after the last is one above
/// it.
[[nodiscard]] std::vector<int64_t> layers_of(const std::vector<std::string>& names);

/// The hint of a pattern that matches none of the model's weights: what they are called.
[[nodiscard]] std::string names_hint(const std::vector<std::string>& names);

/// How many layers have a number: all but what comes before the first and after the last.
[[nodiscard]] int64_t numbered_layers(const std::vector<std::string>& names);

}  // namespace snug::optim
