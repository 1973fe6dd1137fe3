// SPDX-License-Identifier: Apache-2.0
// Finds what counts the places that fill shorter rows up, whose number is another one in another
// program: a sum, a mean, a maximum or a softmax over an axis that follows a length, where nothing
// says that these places are 0 (or far below all others), a place counted from the end, and a
// number that follows a length. What no rule is written for leaves the places apart.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/dependence.h"
#include "graph/text.h"
#include "network/facts.h"
#include "network/filled_places.h"

namespace snug::network {
namespace {

/// What is known of a value: a number that it is everywhere, and its axes that follow a length.
struct Places {
  std::optional<double> constant;
  std::map<size_t, Filled> axes;
};

class PaddingFlow {
 public:
  PaddingFlow(const Graph& graph, const Graph& shorter)
      : graph_(graph), shorter_(shorter), places_(graph.values.size()) {
    for (const ValueId id : graph.values.ids()) {
      if (graph.value(id).producer != kNone) continue;
      for (const size_t axis : following(id)) places_[id].axes[axis] = filled_input(id);
    }
  }

  /// Why the node counts what is filled up; empty where it does not.
  std::string follow(NodeId id) {
    const Node& node = graph_.node(id);
    const std::string& op = *node.op->name;
    problem_.clear();
    for (const ValueId output : node.outputs) {
      Places& out = places_[output];
      for (const size_t axis : following(output)) out.axes[axis] = {.reaches = reach_of(node)};
    }
    if (op == "fill") {
      const double value = node.attrs.real("value");
      out_of(node).constant = value;
      for (auto& [axis, filled] : out_of(node).axes) filled = {value, false, Filled::kAll, 0};
    } else if (is_elementwise(node)) {
      elementwise(node);
    } else if (op == "reshape" || op == "transpose" || op == "broadcast_to" || op == "dropout") {
      carry(node);
    } else if (op == "slice" || op == "pad" || op == "concat") {
      move(node);
    } else if (op == "matmul") {
      product(node);
    } else if (op == "embedding_sum") {
      weighted_sum(node);
    } else if (op == "softmax" || op == "masked_softmax" || op == "attention") {
      normalise(node);
    } else if (op.starts_with("reduce_")) {
      reduce(node);
    } else if (op == "conv2d" || op == "max_pool2d") {
      window(node);
    } else {
      other(node);
    }
    return problem_.empty() ? problem_ : describe(graph_, id) + problem_;
  }

 private:
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  [[nodiscard]] bool follows(ValueId id, size_t axis) const {
    const Shape& there = shorter_.type(id).shape;
    return axis < there.size() && shape(id)[axis] != there[axis];
  }
  [[nodiscard]] std::vector<size_t> following(ValueId id) const {
    std::vector<size_t> axes;
    for (size_t axis = 0; axis < shape(id).size(); ++axis) {
      if (follows(id, axis)) axes.push_back(axis);
    }
    return axes;
  }
  // Fed values are 0 where they are filled up; of whole numbers labels are -100.
  [[nodiscard]] Filled filled_input(ValueId id) const {
    const bool is_zero = graph_.type(id).dtype != DType::i32;
    return {.constant = is_zero ? std::optional(0.0) : std::nullopt};
  }
  Places& out_of(const Node& node) { return places_[node.outputs[0]]; }
  [[nodiscard]] int64_t reach_of(const Node& node) const {
    int64_t reaches = 0;
    for (const ValueId input : node.inputs) {
      if (input == kNone) continue;
      for (const auto& [axis, filled] : places_[input].axes)
        reaches = std::max(reaches, filled.reaches);
    }
    return reaches;
  }
  // What fills an operand along the axis that becomes this one of the output (aligned at the last).
  [[nodiscard]] Filled operand(const Node& node, size_t i, size_t axis) const {
    if (i >= node.inputs.size() || node.inputs[i] == kNone) return same_everywhere({});
    const Places& places = places_[node.inputs[i]];
    const size_t missing = shape(node.outputs[0]).size() - shape(node.inputs[i]).size();
    const auto found = axis < missing ? places.axes.end() : places.axes.find(axis - missing);
    return found == places.axes.end() ? same_everywhere(places.constant) : found->second;
  }
  [[nodiscard]] size_t axis_of(ValueId id, int64_t axis) const {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape(id).size()) : axis);
  }
  void count(ValueId id, size_t axis, const char* what) {
    problem_ =
        fmt::format(" {} {} places, and {}", what, shape(id)[axis], shorter_.type(id).shape[axis]);
  }

  void elementwise(const Node& node) {
    const auto whole = [&](size_t i) {
      return same_everywhere(i < node.inputs.size() ? places_[node.inputs[i]].constant
                                                    : std::nullopt);
    };
    Places& out = out_of(node);
    out.constant = filled_by(node, whole(0), whole(1), whole(2)).constant;
    for (auto& [axis, filled] : out.axes) {
      filled =
          filled_by(node, operand(node, 0, axis), operand(node, 1, axis), operand(node, 2, axis));
      // Masks are made by comparing whole numbers.
      const bool is_mask = graph_.type(node.outputs[0]).dtype == DType::boolean &&
                           graph_.type(node.inputs[0]).dtype == DType::i32;
      if (is_mask && !filled.constant) filled = {.constant = 0.0, .reaches = 0};
    }
  }

  void carry(const Node& node) {
    const Places& in = places_[node.inputs[0]];
    Places& out = out_of(node);
    const std::string& op = *node.op->name;
    if (op != "dropout") out.constant = in.constant;
    if (op == "reshape") return reshaped(node, in, out);
    for (auto& [axis, filled] : out.axes) {
      if (op == "transpose") {
        const auto from = in.axes.find(axis_of(node.inputs[0], node.attrs.ints("perm")[axis]));
        if (from != in.axes.end()) filled = from->second;
        continue;
      }
      const Filled found = operand(node, 0, axis);
      if (found.reaches == -Filled::kAll) {  // the same in places that come into being here
        filled.constant = found.constant;
        filled.covers = Filled::kAll;
      } else {
        filled = op == "dropout" && found.constant != 0.0 ? found.unknown() : found;
      }
    }
  }

  // An axis of the same size behind as many elements is the same axis; an only one stays one.
  void reshaped(const Node& node, const Places& in, Places& out) const {
    const auto before = [](const Shape& of, size_t axis) {
      int64_t elements = 1;
      for (size_t i = 0; i < axis; ++i) elements *= of[i];
      return elements;
    };
    const Shape& from = shape(node.inputs[0]);
    const Shape& to = shape(node.outputs[0]);
    for (auto& [axis, filled] : out.axes) {
      for (const auto& [own, known] : in.axes) {
        const bool is_same = from[own] == to[axis] && before(from, own) == before(to, axis);
        if (is_same || (in.axes.size() == 1 && out.axes.size() == 1)) filled = known;
      }
    }
  }

  void move(const Node& node) {
    const size_t along = axis_of(node.outputs[0], node.attrs.int64("axis"));
    const std::string& op = *node.op->name;
    Places& out = out_of(node);
    if (op == "concat") return join(node, along);
    const ValueId x = node.inputs[0];
    const Places& in = places_[x];
    for (auto& [axis, filled] : out.axes) {
      const auto found = in.axes.find(axis);
      if (found != in.axes.end()) filled = found->second;
    }
    const auto found = out.axes.find(along);
    if (op == "pad" && found != out.axes.end()) {
      const int64_t after = node.attrs.int64("after");
      Filled& filled = found->second;
      filled = filled.moved(-node.attrs.int64("before"));
      filled.reaches = std::max(filled.reaches, after);
      if (filled.constant != 0.0 && after > 0) filled = filled.unknown();
    }
    if (op != "slice") return;
    const int64_t start = node.attrs.int64("start");
    if (found != out.axes.end()) {
      if (in.axes.count(along) != 0) found->second = found->second.moved(start);
      return;
    }
    const Node& there = shorter_.node(graph_.value(node.outputs[0]).producer);
    if (in.axes.count(along) != 0 && there.attrs.int64("start") != start)
      problem_ = fmt::format(" takes place {} of rows that are filled up, and {}", start,
                             there.attrs.int64("start"));
  }

  void join(const Node& node, size_t along) {
    Places& out = out_of(node);
    int64_t before = 0;  // places of parts that follow no length
    for (const ValueId input : node.inputs) {
      for (const auto& [axis, filled] : places_[input].axes) {
        if (axis == along) {
          out.axes[axis] = filled.moved(-before);
        } else if (input == node.inputs[0]) {
          out.axes[axis] = filled;
        } else if (out.axes[axis].constant != filled.constant) {
          out.axes[axis] = out.axes[axis].unknown();
        }
      }
      if (!follows(input, along)) before += shape(input)[along];
    }
  }

  void product(const Node& node) {
    const auto side = [&](size_t i, const char* flag, bool first) {
      const size_t rank = shape(node.inputs[i]).size();
      return rank - (node.attrs.boolean(flag) == first ? 1 : 2);
    };
    const size_t rows = side(0, "transpose_a", true);
    const size_t columns = side(1, "transpose_b", false);
    const size_t inner_a = side(0, "transpose_a", false);
    const size_t inner_b = side(1, "transpose_b", true);
    const Places& a = places_[node.inputs[0]];
    const Places& b = places_[node.inputs[1]];
    const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
    Places& out = out_of(node);
    const size_t rank = shape(node.outputs[0]).size();
    for (auto& [axis, filled] : out.axes) {
      const Places& from = axis + 1 == rank ? b : a;
      const size_t own = axis + 1 == rank ? columns : axis + 2 == rank ? rows : axis;
      const auto found = from.axes.find(own);
      if (found == from.axes.end()) continue;
      filled = found->second.constant == 0.0 && !has_bias ? found->second : found->second.unknown();
    }
    const auto in_a = a.axes.find(inner_a);
    const auto in_b = b.axes.find(inner_b);
    if (in_a == a.axes.end() || in_b == b.axes.end()) return;
    if (!in_a->second.adds_nothing(in_b->second.reaches) &&
        !in_b->second.adds_nothing(in_a->second.reaches))
      count(node.inputs[0], inner_a, "sums up products over");
  }

  // A sum of rows by id, over the last axis of ids and weights.
  void weighted_sum(const Node& node) {
    const ValueId ids = node.inputs[1];
    const ValueId weights = node.inputs[2];
    const size_t last = shape(ids).size() - 1;
    if (!places_[node.inputs[0]].axes.empty()) return other(node);
    if (follows(ids, last)) {
      if (!operand_at(weights, last).adds_nothing(operand_at(ids, last).reaches))
        count(ids, last, "is over");
    }
    for (auto& [axis, filled] : out_of(node).axes) {
      const Filled own = operand_at(weights, axis);
      filled = own.constant == 0.0 ? own : own.unknown();
    }
  }

  void normalise(const Node& node) {
    const std::string& op = *node.op->name;
    const ValueId x = node.inputs[0];
    if (op == "attention") {
      const auto keys = places_[node.inputs[1]].axes.find(1);
      const bool has_mask = node.inputs.size() > 3 && node.inputs[3] != kNone;
      if (keys == places_[node.inputs[1]].axes.end()) return;
      const Filled mask = has_mask ? operand_at(node.inputs[3], 1) : Filled{};
      const int64_t reaches = std::max(keys->second.reaches, operand_at(node.inputs[2], 1).reaches);
      if (!mask.adds_nothing(reaches)) count(node.inputs[1], 1, "looks at");
      return;
    }
    const size_t last = shape(x).size() - 1;
    const size_t along = op == "softmax" ? axis_of(x, node.attrs.int64("axis")) : last;
    if (!follows(x, along)) return;
    const Filled own = operand_at(x, along);
    const Filled mask = op == "softmax" ? own : operand(node, 1, along);
    const bool is_masked = op == "softmax" ? own.is_lowest() : mask.adds_nothing(own.reaches);
    if (!is_masked) return count(x, along, "is over");
    out_of(node).axes[along] = {0.0, false, mask.covers, std::max(own.reaches, mask.reaches)};
  }

  [[nodiscard]] Filled operand_at(ValueId id, size_t axis) const {
    const auto found = places_[id].axes.find(axis);
    return found == places_[id].axes.end() ? same_everywhere({}) : found->second;
  }

  void reduce(const Node& node) {
    const ValueId x = node.inputs[0];
    const std::string& op = *node.op->name;
    std::set<size_t> reduced;
    for (const int64_t each : node.attrs.ints("axes")) reduced.insert(axis_of(x, each));
    for (const size_t axis : reduced) {
      if (!follows(x, axis)) continue;
      const Filled filled = operand_at(x, axis);
      if (op == "reduce_mean") {
        problem_ = fmt::format(" is the mean of {} values, and of {}", summands(graph_, node),
                               summands(shorter_, node));
      } else if (!(op == "reduce_max" ? filled.is_lowest() : filled.adds_nothing())) {
        count(x, axis, "is over");
      }
    }
    size_t to = 0;
    for (size_t axis = 0; axis < shape(x).size(); ++axis) {
      const bool is_reduced = reduced.count(axis) != 0;
      if (!is_reduced && follows(x, axis)) {
        const Filled filled = operand_at(x, axis);
        out_of(node).axes[to] = filled.constant == 0.0 ? filled : filled.unknown();
      }
      to += !is_reduced || node.attrs.boolean("keep_dims") ? 1 : 0;
    }
  }
  static int64_t summands(const Graph& graph, const Node& node) {
    return element_count(graph.type(node.inputs[0])) / element_count(graph.type(node.outputs[0]));
  }

  // A place sees its neighbours; beside the last of a shorter program there are none.
  void window(const Node& node) {
    const ValueId x = node.inputs[0];
    for (auto& [axis, filled] : out_of(node).axes) {
      const Filled own = operand_at(x, axis);
      filled = own.unknown();
      if (*node.op->name == "max_pool2d" || !own.adds_nothing()) filled.reaches += shape(x)[axis];
    }
  }

  // Layers along the last axis, embeddings, losses (what their labels weigh is looked at by
  // itself), and ops of a caller's.
  void other(const Node& node) {
    static const std::set<std::string> masked = {"softmax_cross_entropy", "masked_mean",
                                                 "masked_max", "lstm_cell"};
    if (masked.count(*node.op->name) != 0) return;
    for (const ValueId input : node.inputs) {
      if (input == kNone || places_[input].axes.empty()) continue;
      const auto keeps = [&](ValueId output) { return !places_[output].axes.empty(); };
      if (std::none_of(node.outputs.begin(), node.outputs.end(), keeps))
        count(input, places_[input].axes.begin()->first, "is of");
    }
  }

  const Graph& graph_;
  const Graph& shorter_;
  IdVector<ValueId, Places> places_;
  std::string problem_;
};

bool is_same_op(const Node& a, const Node& b) {
  return *a.op->name == *b.op->name && a.inputs.size() == b.inputs.size();
}

// Numbers that follow a length ("1.0 / b.length()").
std::string other_number(const Graph& graph, NodeId id, const Node& there) {
  for (const auto& [attribute, value] : graph.node(id).attrs.items()) {
    const AttrValue* const other = there.attrs.find(attribute);
    if (kind_of(value) == AttrKind::real && other != nullptr && *other != value)
      return fmt::format("{} of {} is {}, and {}", attribute, describe(graph, id), to_string(value),
                         to_string(*other));
  }
  return {};
}

}  // namespace

std::string counted_padding(const Graph& graph, const Graph& shorter) {
  if (graph.nodes.size() != shorter.nodes.size() || graph.values.size() != shorter.values.size())
    return {};
  const IdVector<ValueId, bool> is_used = sources_of(graph, graph.outputs);
  PaddingFlow flow(graph, shorter);
  for (const NodeId id : graph.nodes.ids()) {
    if (!is_same_op(graph.node(id), shorter.node(id))) return {};
    const std::string counted = flow.follow(id);
    if (!is_used[graph.node(id).outputs[0]]) continue;
    if (!counted.empty()) return counted;
    if (std::string number = other_number(graph, id, shorter.node(id)); !number.empty())
      return number;
  }
  return {};
}

}  // namespace snug::network
