// SPDX-License-Identifier: Apache-2.0
// Which ops may join row programs: one level for all, and rules for parts of the network.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace snug::compile {

/// The level of the nodes that the pattern names (node_names.h).
struct FusionOverride {
  std::string match;  // * matches any text
  bool fuses_rows = true;
};

struct FusionLevels {
  bool fuses_rows = true;  // what no rule matches
  std::vector<FusionOverride> overrides = {};

  /// The place of the first rule that matches the node; the number of rules where none does.
  [[nodiscard]] size_t rule_of(const Node& node) const;
  [[nodiscard]] bool fuses(const Node& node) const;
};

}  // namespace snug::compile
