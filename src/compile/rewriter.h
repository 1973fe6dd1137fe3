// SPDX-License-Identifier: Apache-2.0
// What every rewrite of a graph stands on: a builder that begins with a graph and is handed its
// nodes one after the other.
//
//   Rewriter rewriter(std::move(graph), registry);
//   rewriter.for_each_node([&](Node& node, NodeId) {
//     if (is_double(node)) return rewriter.replace(node.outputs[0], source_of(node));   // it goes
//     node.inputs[0] = cast(rewriter, node.inputs[0], DType::bf16);                     // before
//     it rewriter.keep(node);
//   });
//   return rewriter.take();
//
// A node is handed over with the operands that stand for its own by now. What is built meanwhile
// (the functions of ops take a rewriter as any builder) stands before it, and after keep() behind
// it, in its scope, phase and parts. A node that is not kept is gone. Values keep their ids until
// take(), which puts the graph in order again. Linear.
#pragma once

#include <string>
#include <utility>

#include "base/stop.h"
#include "graph/builder.h"

namespace snug::compile {

class Rewriter final : public GraphBuilder {
 public:
  Rewriter(Graph graph, const OpRegistry& registry);

  /// `rewrite` is called with each node and with its id in the graph before.
  template <class Rewrite>
  void for_each_node(const Rewrite& rewrite) {
    for (const NodeId id : before_.ids()) {
      stop_point();
      hand_over(before_[id]);
      rewrite(before_[id], id);
    }
    leave();
  }

  /// The node goes on, with the types that its outputs have. It is moved from.
  void keep(Node& node);
  /// The same with the types that its operands and attributes ask for now.
  void keep_retyped(Node& node);
  /// From here on `by` is read where `value` was, and is the output of the graph that it was. The
  /// name and the mark of a computed value go over, too.
  void replace(ValueId value, ValueId by);
  /// The output of the graph that `value` was is `by`, under its name.
  void replace_output(ValueId value, ValueId by);
  /// A resident value that nothing reads any more.
  void drop(ValueId resident);
  void set_dtype(ValueId value, DType dtype) { changed_graph().values[value].type.dtype = dtype; }
  void set_shape(ValueId value, Shape shape) {
    changed_graph().values[value].type.shape = std::move(shape);
  }
  void rename(ValueId value, const std::string& name) { changed_graph().values[value].name = name; }

  /// In order: compact(), behind which no id is what it was.
  [[nodiscard]] Graph take();

 private:
  void hand_over(Node& node);
  void leave();
  [[nodiscard]] ValueId now(ValueId value) const;

  IdVector<NodeId, Node> before_;
  IdVector<ValueId, ValueId>
      replaced_;  // by value of the graph before, and as far as it was asked for
};

/// Puts a graph in order: drops values that no node makes any more and renumbers the rest in order
/// of appearance, so that the text form can be printed and parsed. `graph.nodes` must be in a valid
/// order; producers and output indices are taken from the nodes.
[[nodiscard]] Graph compact(Graph graph);

}  // namespace snug::compile
