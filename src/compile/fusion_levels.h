// SPDX-License-Identifier: Apache-2.0
// Which ops may be one kernel: one level for all, and rules for parts of the network.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace snug::compile {

/// No level changes a bit.
enum class FusionLevel {
  off,      // each op by itself
  fusible,  // ops that are computed by rows, in row programs
  full      // products, convolutions and attention as well: what follows one joins row programs
};

/// "off", "fusible" or "full"; none for other words.
[[nodiscard]] std::optional<FusionLevel> fusion_level_of(std::string_view word);
[[nodiscard]] const char* word_of(FusionLevel level);

/// The level of the nodes that the pattern names (node_names.h).
struct FusionOverride {
  std::string match;  // * matches any text
  FusionLevel level = FusionLevel::full;
};

struct FusionLevels {
  FusionLevel level = FusionLevel::full;  // what no rule matches
  std::vector<FusionOverride> overrides = {};

  /// The place of the first rule that matches the node; the number of rules where none does.
  [[nodiscard]] size_t rule_of(const Node& node) const;
  [[nodiscard]] FusionLevel level_of(const Node& node) const;
};

}  // namespace snug::compile
