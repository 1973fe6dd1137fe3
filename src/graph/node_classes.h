// SPDX-License-Identifier: Apache-2.0
// Classes of equal nodes, for what is to be worked out once a class: a program of a hundred
// thousand nodes has some dozens of them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace snug {

enum class NeutralAttrs : uint8_t { count, do_not_count };

/// Nodes are of one class where they have the same op, the same types of inputs and outputs, the
/// same optional inputs and the same attributes. The graph may grow meanwhile.
class NodeClasses {
 public:
  NodeClasses(const Graph& graph, NeutralAttrs neutral) : graph_(graph), neutral_(neutral) {}

  /// From 0, by first asking.
  [[nodiscard]] size_t class_of(NodeId id);

 private:
  [[nodiscard]] const std::vector<bool>& counted_attrs(const Node& node);
  [[nodiscard]] uint64_t hash_of(const Node& node, const std::vector<bool>& is_counted) const;
  [[nodiscard]] bool are_equal(const Node& a, const Node& b,
                               const std::vector<bool>& is_counted) const;

  const Graph& graph_;
  NeutralAttrs neutral_;
  std::vector<NodeId> first_;  // by class
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash_;
  std::unordered_map<const OpDef*, std::vector<bool>> counted_;  // by attribute in rising order
};

}  // namespace snug
