// SPDX-License-Identifier: Apache-2.0
#include "graph/op_def.h"

#include <algorithm>

#include "base/check.h"
#include "snug/error.h"

namespace snug {

OpRegistry::OpRegistry(std::vector<const OpDef*> ops) : ops_(std::move(ops)) {
  std::sort(ops_.begin(), ops_.end(),
            [](const OpDef* a, const OpDef* b) { return *a->name < *b->name; });
  for (size_t i = 1; i < ops_.size(); ++i)
    SNUG_CHECK(*ops_[i - 1]->name != *ops_[i]->name, *ops_[i]->name);
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto found =
      std::lower_bound(ops_.begin(), ops_.end(), name,
                       [](const OpDef* op, std::string_view wanted) { return *op->name < wanted; });
  return found != ops_.end() && *(*found)->name == name ? *found : nullptr;
}

bool is_neutral(const OpDef& op, std::string_view attr) {
  return std::any_of(op.attrs->begin(), op.attrs->end(),
                     [attr](const AttrSpec& spec) { return spec.name == attr && spec.is_neutral; });
}

const AttrValue* attr_of(const Node& node, AttrRole role) {
  for (const AttrSpec& spec : *node.op->attrs) {
    if (spec.role == role) return node.attrs.find(spec.name);
  }
  return nullptr;
}

Attrs complete_attrs(const OpDef& op, Attrs given, const std::string& where) {
  for (const auto& [name, value] : given.items()) {
    const auto spec =
        std::find_if(op.attrs->begin(), op.attrs->end(),
                     [&wanted = name](const AttrSpec& s) { return s.name == wanted; });
    if (spec == op.attrs->end()) {
      throw Error(ErrorCode::invalid_graph, where,
                  "op " + *op.name + " has no attribute '" + name + "'");
    }
    if (kind_of(value) != kind_of(spec->default_value)) {
      throw Error(
          ErrorCode::invalid_graph, where,
          "attribute '" + name + "' of " + *op.name + " has the wrong kind: " + to_string(value));
    }
  }
  for (const AttrSpec& spec : *op.attrs) {
    if (given.has(spec.name)) continue;
    if (spec.is_required) {
      throw Error(ErrorCode::invalid_graph, where,
                  "op " + *op.name + " needs the attribute '" + spec.name + "'");
    }
    given.set(spec.name, spec.default_value);
  }
  return given;
}

std::vector<TensorType> infer_types(const OpDef& op, const InputTypes& inputs, const Attrs& attrs,
                                    const std::string& where) {
  const size_t wanted = op.inputs->size();
  const bool fits = *op.is_variadic ? inputs.size() >= wanted : inputs.size() == wanted;
  if (!fits) {
    throw Error(ErrorCode::invalid_graph, where,
                "op " + *op.name + " takes " + std::to_string(wanted) +
                    (*op.is_variadic ? " or more" : "") + " inputs, not " +
                    std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& spec = (*op.inputs)[std::min(i, wanted - 1)];
    if (!inputs.has(i) && !spec.is_optional) {
      throw Error(ErrorCode::invalid_graph, where,
                  "input '" + std::string(spec.name) + "' of " + *op.name + " is absent");
    }
  }
  std::vector<TensorType> outputs = (*op.infer)(InferArgs{inputs, attrs, where});
  SNUG_CHECK(outputs.size() == op.outputs->size(), *op.name);
  return outputs;
}

}  // namespace snug
