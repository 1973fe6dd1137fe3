// SPDX-License-Identifier: Apache-2.0
#include "compile/row_sparse.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "base/stop.h"
#include "compile/rewriter.h"

namespace snug::compile {
namespace {

// By value: whether something reads it that takes no row-sparse matrix there.
IdVector<ValueId, bool> read_as_a_whole(const Graph& graph) {
  IdVector<ValueId, bool> is_whole(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    stop_point();
    const std::optional<SparseOperand>& sparse = node.op->sparse_operand;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNone && !(sparse && sparse->rows == i))
        is_whole[node.inputs[i]] = true;
    }
  }
  for (const ValueId output : graph.outputs) is_whole[output] = true;
  return is_whole;
}

}  // namespace

Graph row_sparse(Graph graph, const OpRegistry& registry) {
  const IdVector<ValueId, bool> is_whole = read_as_a_whole(graph);
  std::map<ValueId, ValueId> row_of;  // by the rows of a row-sparse matrix
  Rewriter rewriter(std::move(graph), registry);
  rewriter.for_each_node([&](Node& node, NodeId) {
    if (node.op->sparse_form != nullptr && !is_whole[node.outputs[0]]) {
      if (const auto form = node.op->sparse_form(input_types(rewriter.graph(), node), node.attrs)) {
        const std::vector<ValueId> made = rewriter.op(form->op, node.inputs, form->attrs);
        row_of[made[0]] = made[1];
        return rewriter.replace(node.outputs[0], made[0]);
      }
    }
    const std::optional<SparseOperand>& sparse = node.op->sparse_operand;
    if (sparse && sparse->row_of) {
      const auto found = row_of.find(node.inputs[sparse->rows]);
      if (found != row_of.end()) node.inputs[*sparse->row_of] = found->second;
    }
    rewriter.keep(node);
  });
  return rewriter.take();
}

}  // namespace snug::compile
