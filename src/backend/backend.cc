// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

#include "base/check.h"
#include "graph/op_def.h"

namespace snug {

NodeSpec spec_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return {.op = node.op,
          .inputs = input_types(graph, node),
          .outputs = output_types(graph, node),
          .attrs = node.attrs};
}

namespace {

std::string attributes_of(const NodeSpec& spec, bool neutral) {
  std::string text;
  for (const auto& [name, value] : spec.attrs.items()) {
    if (is_neutral(*spec.op, name) == neutral) text += " " + name + "=" + to_string(value);
  }
  return text;
}

}  // namespace

std::string signature_of(const NodeSpec& spec) {
  std::string text = *spec.op->name + "(";
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    text += (i ? "," : "") + (spec.inputs.has(i) ? to_string(spec.inputs[i]) : "_");
  text += ")" + attributes_of(spec, false) + " ->";
  for (const TensorType& type : spec.outputs) text += " " + to_string(type);
  return text;
}

std::unique_ptr<Kernel> Backend::create_fused(const NodeSpec& spec, int32_t /*count*/) const {
  SNUG_CHECK(false, "this backend fuses no " + *spec.op->name);
}

std::unique_ptr<Kernel> Backend::create_row_program(std::span<const RowNode> nodes) const {
  SNUG_CHECK(false, "this backend has no row programs, not of " + *nodes.front().spec.op->name);
}

std::string kernel_key_of(const NodeSpec& spec) {
  return signature_of(spec) + attributes_of(spec, true);
}

}  // namespace snug
