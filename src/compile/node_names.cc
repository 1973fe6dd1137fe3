// SPDX-License-Identifier: Apache-2.0
#include "compile/node_names.h"

#include "base/wildcard.h"
#include "graph/op_def.h"

namespace snug::compile {

std::string full_name(const Node& node) {
  const std::string& scope = node.scope.str();
  return (scope.empty() ? "" : scope + ".") + *node.op->name;
}

bool names_node(const std::string& match, const Node& node) {
  return matches_wildcard(match, node.scope.str()) || matches_wildcard(match, full_name(node));
}

}  // namespace snug::compile
