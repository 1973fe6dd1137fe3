// SPDX-License-Identifier: Apache-2.0
#include "compile/fusion_levels.h"

#include <algorithm>
#include <array>

#include "compile/node_names.h"

namespace snug::compile {

namespace {

constexpr std::array kWords = {"off", "fusible", "full"};  // by level

}  // namespace

std::optional<FusionLevel> fusion_level_of(std::string_view word) {
  const auto found = std::find(kWords.begin(), kWords.end(), word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<FusionLevel>(found - kWords.begin());
}

const char* word_of(FusionLevel level) { return kWords[static_cast<size_t>(level)]; }

size_t FusionLevels::rule_of(const Node& node) const {
  const auto rule = std::find_if(overrides.begin(), overrides.end(),
                                 [&](const auto& each) { return names_node(each.match, node); });
  return static_cast<size_t>(rule - overrides.begin());
}

FusionLevel FusionLevels::level_of(const Node& node) const {
  if (overrides.empty()) return level;
  const size_t rule = rule_of(node);
  return rule < overrides.size() ? overrides[rule].level : level;
}

}  // namespace snug::compile
