// SPDX-License-Identifier: Apache-2.0
#include "graph/builder.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/stop.h"
#include "graph/storage.h"
#include "snug/error.h"

namespace snug {
namespace {

// Sizes are multiplied by sizes without looking in every op and cost.
void check_elements(const TensorType& type, const std::string& where) {
  constexpr int64_t kMost = int64_t{1} << 44;
  int64_t elements = 1;
  for (const int64_t size : type.shape) {
    if (size > kMost / std::max<int64_t>(elements, 1))
      throw Error(ErrorCode::shape_mismatch, where, to_string(type) + " is too large a value",
                  "check its sizes, and the rows of the batch");
    elements *= size;
  }
}

const char* word_for(ValueKind kind) {
  switch (kind) {
    case ValueKind::input:
      return "an input";
    case ValueKind::parameter:
      return "a weight";
    case ValueKind::buffer:
      return "a buffer";
    case ValueKind::state:
      return "a state";
    case ValueKind::cached:
    case ValueKind::computed:
      break;
  }
  return "a computed value";
}

void take_name(const Graph& graph, const std::string& name, ValueKind kind,
               std::unordered_set<std::string>& names) {
  if (name.empty())
    throw Error(ErrorCode::invalid_graph, graph.name,
                std::string(word_for(kind)) + " has an empty name", "give it a name of its own");
  if (names.insert(name).second) return;
  const ValueId other = graph.find(name);
  const ValueKind taken = other == kNone ? ValueKind::computed : graph.value(other).kind;
  const bool is_state = kind == ValueKind::state || taken == ValueKind::state;
  throw Error(
      ErrorCode::invalid_graph, graph.name,
      std::string(word_for(kind)) + " cannot be called '" + name + "': " + word_for(taken) + " is",
      is_state ? "states are called ROLE.PARAMETER: give the other another name"
               : "give one of the two another name, or each a scope of its own");
}

}  // namespace

const TensorType& VjpArgs::type(ValueId id) const { return builder.type(id); }

bool VjpArgs::is_of_weights(ValueId id) const {
  const Graph& graph = builder.graph();
  const Value& value = graph.value(storage_of(graph, id));  // behind views
  return value.producer == kNone ? value.kind == ValueKind::parameter
                                 : graph.node(value.producer).phase == Phase::prologue;
}

GraphBuilder::GraphBuilder(const OpRegistry& registry, std::string name) : registry_(&registry) {
  graph_.name = std::move(name);
}

GraphBuilder::GraphBuilder(const OpRegistry& registry, Graph graph)
    : registry_(&registry), graph_(std::move(graph)) {
  for (const Node& node : graph_.nodes) {
    if (node.attrs.has("ordinal"))
      random_ordinal_ = std::max(random_ordinal_, node.attrs.int64("ordinal") + 1);
    for (const int32_t part : node.parts) next_part_ = std::max(next_part_, part + 1);
  }
}

// Most rewrites name nothing.
std::unordered_set<std::string>& GraphBuilder::names() {
  if (!std::exchange(has_names_, true)) {
    for (const Value& value : graph_.values) {
      if (!value.name.empty()) names_.insert(value.name);
    }
  }
  return names_;
}

ValueId GraphBuilder::add_resident(const std::string& name, TensorType type, ValueKind kind) {
  take_name(graph_, name, kind, names());
  return graph_.values.add({.type = std::move(type), .kind = kind, .name = name});
}

ValueId GraphBuilder::input(const std::string& name, TensorType type) {
  return add_resident(name, std::move(type), ValueKind::input);
}
ValueId GraphBuilder::parameter(const std::string& name, TensorType type) {
  const bool is_first = names().count(name) == 0;
  if (shares_weights_ && is_first) borrowed_.insert(name);
  if (is_first || (!shares_weights_ && borrowed_.erase(name) == 0))
    return add_resident(name, std::move(type), ValueKind::parameter);
  const ValueId found = graph_.find(name);
  if (graph_.value(found).kind != ValueKind::parameter || graph_.type(found) != type) {
    throw Error(ErrorCode::shape_mismatch, graph_.name,
                "the shared weight '" + name + "' is " + to_string(graph_.type(found)) +
                    " elsewhere and " + to_string(type) + " here");
  }
  return found;
}
ValueId GraphBuilder::buffer(const std::string& name, TensorType type) {
  // One node a step moves a buffer in place, so a second use would have to read what the first
  // made.
  if (shares_weights_ && names().count(name) != 0)
    throw Error(
        ErrorCode::invalid_graph, graph_.name,
        "the buffer '" + name + "' is shared, and would be moved twice a step",
        "give each use of the layer a scope of its own, or a norm without running statistics");
  return add_resident(name, std::move(type), ValueKind::buffer);
}
ValueId GraphBuilder::state(const std::string& name, TensorType type) {
  return add_resident(name, std::move(type), ValueKind::state);
}

std::vector<ValueId> GraphBuilder::op(std::string_view name, std::vector<ValueId> inputs,
                                      Attrs attrs) {
  stop_point();
  const NodeId id = graph_.nodes.end_id();
  const std::string where = "%" + to_string(graph_.values.end_id()) + " " +
                            (scope_.empty() ? "" : scope_.str() + "/") + std::string(name);
  const OpDef* def = registry_->find(name);
  if (def == nullptr)
    throw Error(ErrorCode::invalid_graph, where,
                "there is no op named '" + std::string(name) + "'");
  Node node{.op = def,
            .inputs = std::move(inputs),
            .outputs = {},
            .attrs = complete_attrs(*def, std::move(attrs), where),
            .scope = scope_,
            .phase = phase_,
            .parts = parts_};
  InputTypes types;
  types.reserve(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (input != kNone && !graph_.has(input)) {
      throw Error(ErrorCode::invalid_graph, where,
                  "input " + std::to_string(i) + " is not a value of this graph");
    }
    types.add(input == kNone ? std::nullopt : InputTypes::Given(graph_.type(input)));
  }
  std::vector<TensorType> result = infer_types(*def, types, node.attrs, where);
  for (const TensorType& type : result) check_elements(type, where);
  for (size_t i = 0; i < result.size(); ++i) {
    node.outputs.push_back(graph_.values.add({.type = std::move(result[i]),
                                              .kind = ValueKind::computed,
                                              .name = {},
                                              .producer = id,
                                              .output_index = static_cast<int32_t>(i)}));
  }
  std::vector<ValueId> outputs = node.outputs;
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

ValueId GraphBuilder::op1(std::string_view name, std::vector<ValueId> inputs, Attrs attrs) {
  const std::vector<ValueId> outputs = op(name, std::move(inputs), std::move(attrs));
  SNUG_CHECK(outputs.size() == 1, std::string(name));
  return outputs[0];
}

void GraphBuilder::set_name(ValueId id, const std::string& name) {
  SNUG_CHECK(!graph_.is_resident(id) && graph_.value(id).name.empty(), name);
  take_name(graph_, name, ValueKind::computed, names());
  graph_.values[id].name = name;
}

void GraphBuilder::mark_output(ValueId id, const std::string& name) {
  set_name(id, name);
  graph_.outputs.push_back(id);
}

}  // namespace snug
