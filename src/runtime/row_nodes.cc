// SPDX-License-Identifier: Apache-2.0
#include "runtime/row_nodes.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/check.h"
#include "base/units.h"

namespace snug::runtime {
namespace {

using Place = RowOperand::Place;

class Collector {
 public:
  Collector(const Graph& graph, const Lowered& lowered, const plan::Plan& plan)
      : graph_(graph), lowered_(lowered), plan_(plan) {}

  void add(int32_t step, std::span<const NodeId> nodes) {
    for (const NodeId id : nodes) {
      for (const ValueId output : graph_.node(id).outputs) made_.insert(storage_of(output));
    }
    for (const NodeId id : nodes) {
      const Node& node = graph_.node(id);
      RowNode row{.spec = spec_of(graph_, id), .inputs = {}, .outputs = {}};
      for (const ValueId input : node.inputs) row.inputs.push_back(operand(step, input));
      for (const ValueId output : node.outputs) row.outputs.push_back(operand(step, output));
      found_.nodes.push_back(std::move(row));
    }
  }

  RowNodes take(const std::function<RowwiseForm(const NodeSpec&)>& row_form) {
    RowProgram program;
    int64_t& scratch = found_.scratch_bytes;
    for (const RowNode& node : found_.nodes) {
      const RowwiseForm form = row_form(node.spec);
      SNUG_CHECK(program.add(form, keys_of(node.inputs), keys_of(node.outputs)),
                 "a node of a row program that is not computed so");
      scratch += round_up(form.scratch_bytes, lowered_.problem.alignment);
    }
    for (const auto& [storage, operand] : operands_) {
      if (operand.place == Place::buffer)
        scratch += round_up(program.buffer_bytes(key_of(operand)), lowered_.problem.alignment);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] plan::StorageId storage_of(ValueId id) const {
    return lowered_.storage_of_value[id];
  }
  static int64_t key_of(const RowOperand& operand) {
    constexpr int64_t kApart = int64_t{1} << 32;
    return operand.place == Place::absent
               ? -1
               : static_cast<int64_t>(operand.place) * kApart + operand.index;
  }
  static std::vector<int64_t> keys_of(const std::vector<RowOperand>& operands) {
    std::vector<int64_t> keys;
    for (const RowOperand& each : operands) keys.push_back(key_of(each));
    return keys;
  }

  // Whether the plan has no memory for it.
  [[nodiscard]] bool is_inside(int32_t step, plan::StorageId storage) const {
    const plan::Step& at = plan_.steps[step];
    const plan::Op& op = lowered_.problem.ops[at.op];
    const auto is_at = [&](const std::vector<plan::StorageId>& list,
                           const std::vector<int64_t>& offsets) {
      const auto found = std::find(list.begin(), list.end(), storage);
      return found != list.end() &&
             offsets[static_cast<size_t>(found - list.begin())] == plan::kInsideOffset;
    };
    return is_at(op.inputs, at.input_offsets) || is_at(op.outputs, at.output_offsets);
  }

  RowOperand operand(int32_t step, ValueId value) {
    if (value == kNone) return {};
    const plan::StorageId storage = storage_of(value);
    const auto [found, is_new] = operands_.try_emplace(storage);
    RowOperand& operand = found->second;
    if (!is_new) return operand;
    if (is_inside(step, storage)) {
      operand = {Place::buffer, buffers_++};
    } else if (made_.contains(storage)) {
      operand = {Place::output, static_cast<int32_t>(found_.outputs.size())};
      found_.outputs.push_back(value);
      found_.output_steps.push_back(step);
    } else {
      operand = {Place::input, static_cast<int32_t>(found_.inputs.size())};
      found_.inputs.push_back(value);
      found_.input_steps.push_back(step);
    }
    return operand;
  }

  const Graph& graph_;
  const Lowered& lowered_;
  const plan::Plan& plan_;
  std::set<plan::StorageId> made_;
  std::map<plan::StorageId, RowOperand> operands_;
  int32_t buffers_ = 0;
  RowNodes found_;
};

}  // namespace

RowNodes row_nodes(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
                   int32_t first, int32_t last,
                   const std::function<RowwiseForm(const NodeSpec&)>& row_form) {
  Collector collector(graph, lowered, plan);
  for (int32_t step = first; step <= last; ++step) {
    const plan::OpId op = plan.steps[step].op;
    const std::span<const NodeId> nodes = lowered.nodes_of_op[op];
    collector.add(step, nodes.last(static_cast<size_t>(lowered.nodes_by_rows[op])));
  }
  return collector.take(row_form);
}

}  // namespace snug::runtime
