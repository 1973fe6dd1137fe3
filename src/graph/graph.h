// SPDX-License-Identifier: Apache-2.0
// The graph: values in single assignment and nodes in a valid order. A plain value; behaviour lives
// in free functions (text.h, storage.h, verify.h) and in the builder. What a node computes is said
// by op_def.h, which nothing here looks into.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/phase.h"
#include "base/shared_text.h"
#include "graph/input_types.h"
#include "snug/attrs.h"
#include "snug/types.h"

namespace snug {

struct OpDef;

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

/// How a value comes to be. All but `computed` are resident: they live outside the arena for the
/// whole run.
///   input      fed by the caller before each step
///   parameter  a trainable (or frozen) weight
///   buffer     a part of the model that no gradient moves: running statistics
///   state      an optimizer state or a gradient accumulator
///   cached     what a prologue node makes of weights once an update: it has a producer in the
///              program that makes it, and none in those that read it
///   computed   the output of a node; lives in the arena, or in the storage of the resident value
///   that it overwrites
enum class ValueKind : uint8_t { input, parameter, buffer, state, cached, computed };
/// What a file of the model's weights holds.
[[nodiscard]] constexpr bool is_of_model(ValueKind kind) {
  return kind == ValueKind::parameter || kind == ValueKind::buffer;
}

/// What stays from update to update: of the model, or of its training.
[[nodiscard]] constexpr bool is_kept(ValueKind kind) {
  return is_of_model(kind) || kind == ValueKind::state;
}

struct Value {
  TensorType type;
  ValueKind kind = ValueKind::computed;
  std::string name;  // unique where not empty; always set for residents
  NodeId producer = kNone;
  int32_t output_index = 0;
  bool is_marked = false;  // to be kept for the backward part, where a plan follows marks
};

struct Node {
  const OpDef* op = nullptr;
  IndexVector<ValueId> inputs;  // kNone for an optional input that is not given
  IndexVector<ValueId> outputs;
  Attrs attrs;
  SharedText scope;  // "encoder.layer.3.attention"
  Phase phase = Phase::forward;
  /// The parts that are run again for their backward part and that it lies in, outermost first. A
  /// backward node has those of the node that it belongs to.
  std::vector<int32_t> parts = {};
};

struct Graph {
  std::string name;
  IdVector<ValueId, Value> values;
  IdVector<NodeId, Node> nodes;  // every node comes after the producers of its inputs
  std::vector<ValueId> outputs;  // computed values that stay readable after the step

  [[nodiscard]] const Value& value(ValueId id) const { return values[id]; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes[id]; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return value(id).type; }
  [[nodiscard]] bool is_resident(ValueId id) const { return value(id).kind != ValueKind::computed; }
  /// Whether there is a value of this id.
  [[nodiscard]] bool has(ValueId id) const { return values.has(id); }
  /// The value of this name, or kNone.
  [[nodiscard]] ValueId find(const std::string& name) const;
};

[[nodiscard]] InputTypes input_types(const Graph& graph, const Node& node);
[[nodiscard]] std::vector<TensorType> output_types(const Graph& graph, const Node& node);

}  // namespace snug
