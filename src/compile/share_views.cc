// SPDX-License-Identifier: Apache-2.0
#include "compile/share_views.h"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/rewriter.h"

namespace snug::compile {

Graph share_views(Graph graph, const OpRegistry& registry) {
  using Key =
      std::tuple<const OpDef*, ValueId, std::vector<Attrs::Item>, Phase, std::vector<int32_t>>;
  std::map<Key, ValueId> first;
  Rewriter rewriter(std::move(graph), registry);
  rewriter.for_each_node([&](Node& node, NodeId) {
    const bool is_view = node.op->alias->kind == AliasKind::view && node.inputs.size() == 1;
    if (!is_view) return rewriter.keep(node);
    const Value& view = rewriter.graph().value(node.outputs[0]);
    if (!view.name.empty() || view.is_marked) return rewriter.keep(node);
    const auto& items = node.attrs.items();
    const auto [found, is_new] = first.try_emplace(
        Key(node.op, node.inputs[0], {items.begin(), items.end()}, node.phase, node.parts),
        node.outputs[0]);
    if (is_new) return rewriter.keep(node);
    rewriter.replace(node.outputs[0], found->second);
  });
  return rewriter.take();
}

}  // namespace snug::compile
