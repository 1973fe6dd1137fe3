// SPDX-License-Identifier: Apache-2.0
#include "compile/fusion_levels.h"

#include <algorithm>

#include "compile/node_names.h"

namespace snug::compile {

size_t FusionLevels::rule_of(const Node& node) const {
  const auto rule = std::find_if(overrides.begin(), overrides.end(),
                                 [&](const auto& each) { return names_node(each.match, node); });
  return static_cast<size_t>(rule - overrides.begin());
}

bool FusionLevels::fuses(const Node& node) const {
  if (overrides.empty()) return fuses_rows;
  const size_t rule = rule_of(node);
  return rule < overrides.size() ? overrides[rule].fuses_rows : fuses_rows;
}

}  // namespace snug::compile
