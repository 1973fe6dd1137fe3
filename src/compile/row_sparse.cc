// SPDX-License-Identifier: Apache-2.0
#include "compile/row_sparse.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/stop.h"
#include "compile/rewriter.h"
#include "compile/value_names.h"
#include "graph/dependence.h"

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

std::optional<SparseForm> sparse_form_of(const Graph& graph, const Node& node) {
  if (node.op->sparse_form == nullptr) return std::nullopt;
  return node.op->sparse_form(input_types(graph, node), node.attrs);
}

// By value: the weight whose gradient is summed up in it; null where it is no such sum.
class Sums {
 public:
  explicit Sums(const Graph& graph) : weight_of_(graph.values.size(), nullptr) {
    for (const ValueId id : graph.values.ids()) {
      const Value& value = graph.values[id];
      if (value.kind == ValueKind::state && value.name.starts_with(kGradientPrefix))
        weight_of_[id] = &value.name;
    }
    for (const Node& node : graph.nodes) {
      if (is_sum(node)) weight_of_[node.outputs[0]] = weight_of_[node.inputs[0]];
    }
  }

  // Whether the node adds to a sum.
  [[nodiscard]] bool is_sum(const Node& node) const {
    return node.op->is_accumulation && weight_of_[node.inputs[0]] != nullptr;
  }
  [[nodiscard]] std::string weight_of(ValueId sum) const {
    return weight_of_[sum]->substr(std::string_view(kGradientPrefix).size());
  }

 private:
  IdVector<ValueId, const std::string*> weight_of_;
};

// Beside the rows of a row-sparse sum.
struct RowsOf {
  ValueId row_of = kNone;
  ValueId count = kNone;
};

std::string row_of_name(const std::string& weight) { return kGradientPrefix + weight + ".row_of"; }
std::string count_name(const std::string& weight) { return kGradientPrefix + weight + ".count"; }

}  // namespace

RowSparseSums find_row_sparse_sums(const Graph& train, const Graph& update) {
  const Sums sums(train);
  const IdVector<ValueId, int> readers = count_readers(train);
  RowSparseSums found;
  std::set<std::string> whole;
  for (const Node& node : train.nodes) {
    stop_point();
    if (!sums.is_sum(node)) continue;
    const std::string weight = sums.weight_of(node.inputs[0]);
    const NodeId producer = train.value(node.inputs[1]).producer;
    const auto form =
        producer == kNone ? std::nullopt : sparse_form_of(train, train.node(producer));
    if (form && readers[node.inputs[1]] == 1)
      found[weight] += form->rows;
    else
      whole.insert(weight);
  }
  const IdVector<ValueId, bool> is_whole = read_as_a_whole(update);
  std::erase_if(found, [&](const auto& each) {
    const auto& [weight, rows] = each;
    const ValueId sum = update.find(kGradientPrefix + weight);
    // A weight that is called as the states beside the rows would be.
    const bool is_taken =
        update.find(row_of_name(weight)) != kNone || update.find(count_name(weight)) != kNone;
    return whole.contains(weight) || is_taken || sum == kNone || is_whole[sum] ||
           2 * rows > update.type(sum).shape[0];
  });
  return found;
}

Graph row_sparse_sums(Graph graph, const OpRegistry& registry, const RowSparseSums& sums) {
  IdVector<ValueId, bool> is_added(graph.values.size(), false);  // to a row-sparse sum
  {
    const Sums all(graph);
    for (const Node& node : graph.nodes) {
      if (all.is_sum(node) && sums.contains(all.weight_of(node.inputs[0])))
        is_added[node.inputs[1]] = true;
    }
  }
  Rewriter rewriter(std::move(graph), registry);
  std::map<ValueId, RowsOf> sparse;  // by rows
  for (const auto& [weight, rows] : sums) {
    const ValueId sum = rewriter.graph().find(kGradientPrefix + weight);
    if (sum == kNone) continue;
    const Shape whole = rewriter.shape(sum);
    rewriter.set_shape(sum, {rows, whole[1]});
    sparse[sum] = {rewriter.state(row_of_name(weight), {DType::i32, {whole[0]}}),
                   rewriter.state(count_name(weight), {DType::i32, {}})};
  }
  std::map<ValueId, Node> adders;  // what makes what is added
  rewriter.for_each_node([&](Node& node, NodeId) {
    if (is_added[node.outputs[0]]) {
      adders.emplace(node.outputs[0], std::move(node));
      return;
    }
    if (node.op->is_accumulation && sparse.contains(node.inputs[0])) {
      const RowsOf& of = sparse.at(node.inputs[0]);
      const Node& adder = adders.at(node.inputs[1]);
      const auto form = sparse_form_of(rewriter.graph(), adder);
      SNUG_CHECK(form.has_value(), *adder.op->name);
      std::vector<ValueId> inputs = {node.inputs[0], of.row_of, of.count};
      inputs.insert(inputs.end(), adder.inputs.begin(), adder.inputs.end());
      const std::vector<ValueId> made = rewriter.op(form->accumulating_op, std::move(inputs));
      sparse[made[0]] = {made[1], made[2]};
      return rewriter.replace(node.outputs[0], made[0]);
    }
    const std::optional<SparseOperand>& operand = node.op->sparse_operand;
    if (!operand || !sparse.contains(node.inputs[operand->rows])) return rewriter.keep(node);
    const RowsOf of = sparse.at(node.inputs[operand->rows]);
    if (operand->row_of) node.inputs[*operand->row_of] = of.row_of;
    if (!operand->is_cleared) return rewriter.keep(node);
    const std::string op = *node.op->name;
    rewriter.keep_retyped(node);
    for (const ValueId beside : {of.row_of, of.count}) rewriter.op1(op, {beside});
  });
  return rewriter.take();
}

Graph row_sparse(Graph graph, const OpRegistry& registry) {
  const IdVector<ValueId, bool> is_whole = read_as_a_whole(graph);
  std::map<ValueId, ValueId> row_of;  // by the rows of a row-sparse matrix
  Rewriter rewriter(std::move(graph), registry);
  rewriter.for_each_node([&](Node& node, NodeId) {
    if (node.op->sparse_form != nullptr && !is_whole[node.outputs[0]]) {
      if (const auto form = sparse_form_of(rewriter.graph(), node)) {
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
