// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/id_vector.h"
#include "base/utf8.h"
#include "compile/value_names.h"
#include "graph/dependence.h"
#include "graph/text.h"
#include "network/facts.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::network {

using compile::BuildRequest;

namespace {

constexpr int64_t kProbedRows = 7;  // numbers that few other sizes have
constexpr int64_t kOtherRows = 3;
constexpr int64_t kListed = 4;
constexpr const char* kDependsOnBuilderOnly =
    "let its function depend on nothing but the builder: no counters, no random numbers";

[[noreturn]] void fail(const Network& network, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::invalid_graph, network.name(), what, hint);
}

bool is_number(const Graph& graph, ValueId id) {
  const NodeId producer = graph.value(id).producer;
  return producer != kNone && *graph.node(producer).op->name == "fill";
}

// The operands in which a node is linear; none where it is not.
std::vector<ValueId> linear_operands(const Graph& graph, const Node& node) {
  static const std::set<std::string> sums = {"add", "sub", "neg", "scale"};
  const std::string& op = *node.op->name;
  const auto& inputs = node.inputs;
  if (sums.count(op) != 0) return {inputs.begin(), inputs.end()};
  if ((op == "mul" || op == "div") && is_number(graph, inputs[1])) return {inputs[0]};
  if (op == "mul" && is_number(graph, inputs[0])) return {inputs[1]};
  return {};
}

// Parts of the global mean may be added up over micro-batches only as long as they enter the loss
// linearly.
void check_linear(const Network& network, const Graph& graph, ValueId loss,
                  const std::vector<ValueId>& means) {
  const std::set<ValueId> parts(means.begin(), means.end());
  std::vector<ValueId> open = {loss};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (parts.count(id) != 0) continue;
    const NodeId producer = graph.value(id).producer;
    const std::vector<ValueId> operands =
        producer == kNone ? std::vector<ValueId>() : linear_operands(graph, graph.node(producer));
    if (operands.empty()) {
      fail(network,
           "the loss is not a sum of means times constants: it has " +
               (producer == kNone ? "'" + graph.value(id).name + "'" : describe(graph, producer)),
           "minimize what weighted_mean, cross_entropy or mean_squared_error give, added up and "
           "times numbers");
    }
    open.insert(open.end(), operands.begin(), operands.end());
  }
}

// A mark that no backward op can gain from is an error, not a remark: whoever set it believes that
// it saves memory.
void check_marks(const Network& network, const Graph& graph, ValueId loss) {
  const IdVector<ValueId, bool> is_used = sources_of(graph, {&loss, 1});
  const Value& end = graph.value(loss);
  if (end.is_marked || !end.name.empty())
    fail(network,
         "the mark" + (end.name.empty() ? "" : " '" + end.name + "'") +
             " is on what training minimizes: it keeps nothing",
         "mark what the network goes on from, not its end");
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    if (!value.is_marked || is_used[id]) continue;
    const std::string what =
        value.name.empty() ? describe(graph, value.producer) : "'" + value.name + "'";
    fail(network, "the mark on " + what + " keeps nothing: the loss does not depend on it",
         "mark what the loss is computed from");
  }
}

// Their sizes are their own, not those of a micro-batch.
void check_weights(const Network& network, const Graph& graph, const Graph& other) {
  for (const Value& value : graph.values) {
    if (!is_of_model(value.kind)) continue;
    const ValueId found = other.find(value.name);
    if (found != kNone && other.type(found) == value.type) continue;
    fail(network,
         "the weight '" + value.name + "' is " + to_string(value.type) +
             " for one number of rows or length, and " +
             (found == kNone ? "absent" : to_string(other.type(found))) + " for another",
         "a weight does not depend on rows() or length()");
  }
}

std::vector<std::string> weights_in(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (is_of_model(value.kind)) names.push_back(value.name);
  }
  return names;
}

/// What a network is built with to be looked at.
struct Probing {
  const Network& network;
  const OpRegistry& ops;
  DrawNumbering draws;
};

// Parts that the loss does not depend on (a head that is only put out) are no part of training.
bool has_marks_of(const Graph& graph, ValueId loss) {
  const IdVector<ValueId, bool> is_source = sources_of(graph, {&loss, 1});
  const auto is_of_part = [&](const Node& node) {
    return !node.parts.empty() && std::any_of(node.outputs.begin(), node.outputs.end(),
                                              [&](ValueId id) { return is_source[id]; });
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_of_part) ||
         std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return value.is_marked; });
}

Graph probe(const Probing& its, bool training, const Lengths& lengths, NetworkFacts& facts,
            int64_t rows = kProbedRows) {
  const auto& [network, ops, draws] = its;
  GraphBuilder builder(ops, network.name());
  const BuildRequest request{.rows = rows, .lengths = lengths, .training = training};
  try {
    const ValueId loss = build_network(network, builder, request, facts);
    if (training) facts.has_marks = facts.has_marks && has_marks_of(builder.graph(), loss);
  } catch (const Error& error) {
    if (error.message().find('[') == std::string::npos) throw;
    // Shapes are those of a number of rows that the caller never wrote.
    throw Error(
        error.code(), error.where(),
        error.message() + " (built with " + std::to_string(rows) + " rows, to see what it is fed)",
        error.hint());
  }
  if (draws == DrawNumbering::operands) draw_once_for_all_rows(network, ops, request, builder);
  return builder.take();
}

// `graph` is the one that `facts` were found in last; `other` is it for other rows.
void find_coupling(const Probing& its, bool training, const Graph& graph, const Graph& other,
                   NetworkFacts& facts) {
  std::string& coupling = training ? facts.coupling : facts.eval_coupling;
  if (!coupling.empty()) return;
  coupling = row_coupling({.ops = its.ops,
                           .graph = graph,
                           .other = other,
                           .rows = kProbedRows,
                           .other_rows = kOtherRows,
                           .has_gradients = training,
                           .draws = its.draws},
                          facts.by_row);
}

/// The network for the longest rows.
struct LongestGraphs {
  const Graph& training;
  const Graph& evaluation;
};

// Rows that are shorter than their program are filled up at their end, so a length is their first
// axis, and the input says so. That it is the truth shows where the length changes.
void check_lengths(const Probing& its, const std::vector<Lengths>& lengths,
                   const LongestGraphs& graphs, const NetworkFacts& facts) {
  const Network& network = its.network;
  if (lengths.empty()) return;
  const Lengths& longest = lengths.back();
  for (const auto& [name, most] : longest.by_name()) {
    if (facts.lengths.count(name) == 0)
      fail(network, "it asks for no length" + (name.empty() ? "" : " '" + name + "'"),
           "build it with b.length(), or omit the length in SessionOptions::lengths");
    const auto shorter = std::find_if(
        lengths.begin(), lengths.end(),
        [&, &name = name, most = most](const Lengths& each) { return each.of(name) < most; });
    if (shorter == lengths.end()) continue;
    NetworkFacts other;
    const Graph training = probe(its, true, *shorter, other);
    const Graph evaluation = probe(its, false, *shorter, other);
    for (const FedInput& input : facts.inputs) {
      Shape expected = input.row_shape;
      if (input.length) expected[0] = shorter->of(*input.length);
      const auto found = std::find_if(other.inputs.begin(), other.inputs.end(),
                                      [&](const FedInput& one) { return one.name == input.name; });
      if (found != other.inputs.end() && found->row_shape == expected) continue;
      fail(network,
           "the input '" + input.name + "' is " + to_string(input.row_shape) +
               " a row where rows have the length " + to_string(longest) + ", and " +
               (found == other.inputs.end() ? "absent" : to_string(found->row_shape)) + " where " +
               to_string(*shorter),
           "give b.length() itself as the first axis of its row, and as no other");
    }
    // Otherwise what fills rows up would count, and a batch's loss would depend on other programs.
    for (const MeanTotal& mean : facts.means) {
      const auto found = std::find_if(other.means.begin(), other.means.end(),
                                      [&](const MeanTotal& one) { return one.name == mean.name; });
      if (found != other.means.end() && *found == mean) continue;
      fail(network,
           "a mean is over " + std::to_string(mean.each) + " values a " +
               (mean.weights.empty() ? "row" : "weight of '" + mean.weights + "'") +
               " where rows have the length " + to_string(longest) +
               ", and over other ones where " + to_string(*shorter) +
               ": it counts what fills rows up",
           "give the mean a weight for each place, an input of shape {b.length()}");
    }
    if (facts.counts_padding) continue;
    std::string counted = counted_padding(graphs.training, training);
    if (counted.empty()) counted = counted_padding(graphs.evaluation, evaluation);
    if (!counted.empty())
      fail(network,
           counted + ", where rows have the length " + to_string(longest) + ", and where " +
               to_string(*shorter) +
               ": it counts what fills rows up, so that predictions follow the program",
           "divide a sum by that of a mask: reduce_sum(x * mask, axes) / reduce_sum(mask, axes), "
           "take masked_softmax for weights; or say with counts_padding() why it may count");
  }
}

}  // namespace

ValueId build_network(const Network& network, GraphBuilder& graph, const BuildRequest& request,
                      NetworkFacts& facts) {
  NetworkBuilder::State state{.graph = graph, .request = request, .facts = facts};
  NetworkBuilder builder(state);
  network.build()(builder);
  facts.by_row = std::move(state.by_row);
  for (const auto& [weight, rule] : state.shared_rules) {
    int64_t& most = facts.shared_by[weight];
    most = std::max(most, state.uses.at(weight));
  }
  if (state.loss == kNone) {
    if (request.training)
      fail(network, "the network minimizes nothing", "call minimize with its loss");
    return kNone;
  }
  for (const std::string& weight : state.disputed) {
    if (state.owned.count(weight) == 0)
      fail(network,
           "the parts that share the weight '" + weight +
               "' give it different initial values, and no part has it",
           "give the same to each, or let one of them have it (Weights::own)");
  }
  check_linear(network, graph.graph(), state.loss, state.means);
  check_marks(network, graph.graph(), state.loss);
  graph.mark_output(state.loss, compile::kLossName);
  return request.training ? state.loss : kNone;
}

std::string unshared_notice(const NetworkFacts& facts) {
  std::string names;
  int64_t count = 0;
  for (const auto& [weight, parts] : facts.shared_by) {
    if (parts > 1) continue;
    if (++count <= kListed) names += (count == 1 ? "'" : ", '") + weight + "'";
  }
  if (count == 0) return {};
  return "warning: " + std::to_string(count) + (count == 1 ? " weight is" : " weights are") +
         " of a part with Weights::shared, and no other part has " + (count == 1 ? "it" : "them") +
         " (is the scope of the other called otherwise?): " + names +
         (count > kListed ? ", ..." : "");
}

Network with_known_facts(const Network& network, NetworkFacts known) {
  const std::shared_ptr<const OpRegistry> ops = registry_with(network.ops());
  for (const bool training : {true, false}) {
    GraphBuilder builder(*ops, network.name());
    (void)build_network(network, builder,
                        {.rows = 1, .lengths = known.shortest, .training = training}, known);
  }
  known.by_row.clear();
  return network.with_facts(std::make_shared<const NetworkFacts>(std::move(known)));
}

namespace {

// A function with a counter or random numbers of its own shows in two graphs of the same request.
// Returns what the graph computes with.
IdVector<NodeId, uint64_t> repeated_ops(const Probing& its, bool training, const Lengths& lengths,
                                        const Graph& graph) {
  NetworkFacts unused;
  const Graph again = probe(its, training, lengths, unused);
  IdVector<NodeId, uint64_t> ops = op_digests(graph);
  if (ops == op_digests(again)) return ops;
  fail(its.network,
       "it is another network each time it is built: " + std::to_string(graph.nodes.size()) +
           " ops, then " + std::to_string(again.nodes.size()) +
           (graph.nodes.size() == again.nodes.size() ? " other ones" : ""),
       kDependsOnBuilderOnly);
}

// Builds the network in training and in evaluation, for several numbers of rows and lengths.
NetworkFacts find_facts(const Probing& its, const std::vector<Lengths>& lengths) {
  const Network& network = its.network;
  NetworkFacts facts;
  const Lengths longest = lengths.empty() ? Lengths() : lengths.back();
  const Lengths shortest = lengths.empty() ? Lengths() : lengths.front();
  const Graph probed = probe(its, true, longest, facts);
  IdVector<NodeId, uint64_t> training_ops = repeated_ops(its, true, longest, probed);
  NetworkFacts other;
  const Graph of_other_rows = probe(its, true, longest, other, kOtherRows);
  find_coupling(its, true, probed, of_other_rows, facts);
  check_weights(network, probed, of_other_rows);
  if (shortest != longest)
    check_weights(network, probed, probe(its, true, shortest, other, kOtherRows));
  for (const Value& value : probed.values) {
    if (first_invalid_utf8(value.name))
      fail(network,
           "a name that begins with '" + value.name.substr(0, *first_invalid_utf8(value.name)) +
               "' is not UTF-8",
           "checkpoints and plans are text: choose another name");
  }
  const std::vector<std::string> trained = weights_in(probed);
  if (trained.empty())
    fail(network, "the network has no weights", "declare them with layers or parameter()");
  const Graph evaluated = probe(its, false, longest, facts);
  IdVector<NodeId, uint64_t> evaluation_ops = repeated_ops(its, false, longest, evaluated);
  find_coupling(its, false, evaluated, probe(its, false, longest, other, kOtherRows), facts);
  for (const std::string& name : weights_in(evaluated)) {
    if (std::find(trained.begin(), trained.end(), name) == trained.end())
      fail(network, "the weight '" + name + "' is used in evaluation only",
           "build the same network in training");
  }
  std::set<std::string> names;
  for (const FedInput& input : facts.inputs) {
    if (!names.insert(input.name).second)
      fail(network, "the input '" + input.name + "' differs between training and evaluation",
           "give it one shape and type");
  }
  std::set<std::string> totals;
  for (const MeanTotal& mean : facts.means) {
    if (!totals.insert(mean.name).second)
      fail(network, "the means of training and evaluation differ", "take them in the same order");
  }
  check_lengths(its, lengths, {probed, evaluated}, facts);
  facts.shortest = shortest;
  facts.longest = longest;
  if (facts.coupling.empty()) facts.training_ops = std::move(training_ops);
  if (facts.eval_coupling.empty()) facts.evaluation_ops = std::move(evaluation_ops);
  return facts;
}

// Programs are built one by one, and share weights and what is fed.
void check_same(const Network& network, const NetworkFacts& known, const NetworkFacts& found,
                bool training) {
  const auto refuse = [&](const std::string& what) {
    fail(network, "it is another network than when it was built before: " + what,
         kDependsOnBuilderOnly);
  };
  for (const auto& [weight, rule] : found.init) {
    const auto before = known.init.find(weight);
    if (before == known.init.end()) refuse("the weight '" + weight + "' is new");
    if (before->second != rule) refuse("the weight '" + weight + "' has another initial value");
  }
  for (const auto& [weight, rule] : known.init) {
    if (training && found.init.count(weight) == 0)
      refuse("the weight '" + weight + "' is not there");
  }
  const auto has = [](const auto& list, const auto& one) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& each) { return each.name == one.name; });
  };
  for (const FedInput& input : found.inputs) {
    if (!has(known.inputs, input)) refuse("the input '" + input.name + "' is new");
  }
  for (const MeanTotal& mean : found.means) {
    if (!has(known.means, mean)) refuse("it takes one mean more");
  }
}

}  // namespace

// Programs for other numbers of rows than those that were looked at: `rows() > 2 ? 1 : 2` heads.
static void check_ops(const Network& network, const NetworkFacts& known,
                      const BuildRequest& request, const Graph& graph) {
  const IdVector<NodeId, uint64_t>& wanted =
      request.training ? known.training_ops : known.evaluation_ops;
  if (request.lengths != known.longest || wanted.empty()) return;
  const std::string rows = std::to_string(request.rows);
  if (wanted.size() != graph.nodes.size())
    fail(network,
         "it has " + std::to_string(graph.nodes.size()) + " ops for " + rows + " rows, and " +
             std::to_string(wanted.size()) + " for " + std::to_string(kProbedRows),
         "let its function depend on nothing but the builder, and only shapes on rows(); or say "
         "why with couples_rows()");
  const IdVector<NodeId, uint64_t> found = op_digests(graph);
  const IdRange nodes = graph.nodes.ids();
  const auto other =
      std::find_if(nodes.begin(), nodes.end(), [&](NodeId id) { return found[id] != wanted[id]; });
  if (other == nodes.end()) return;
  fail(network,
       "it computes with the number of its rows: for " + rows + " rows " + describe(graph, *other) +
           " is another op, or has other attributes than for " + std::to_string(kProbedRows),
       "let nothing but shapes depend on rows(), or say why with couples_rows()");
}

DescribedNetwork describe_network(const Network& network, const std::vector<Lengths>& lengths,
                                  DrawNumbering draws) {
  if (network.name().empty())
    throw Error(ErrorCode::bad_config, "network", "a network needs a name");
  if (!network.build())
    throw Error(ErrorCode::bad_config, network.name(), "a network needs a function that builds it");
  DescribedNetwork described;
  const std::shared_ptr<const OpRegistry> ops = registry_with(network.ops());
  const std::shared_ptr<const NetworkFacts> known =
      network.facts() != nullptr
          ? network.facts()
          : std::make_shared<const NetworkFacts>(find_facts({network, *ops, draws}, lengths));
  const NetworkFacts& facts = *known;
  described.facts = facts;
  const auto shared = std::make_shared<const Network>(network);
  described.def = {
      .build =
          [shared, known, ops, draws](GraphBuilder& graph, const BuildRequest& request) {
            NetworkFacts found;
            const ValueId loss = build_network(*shared, graph, request, found);
            check_same(*shared, *known, found, request.training);
            if (shared->facts() == nullptr && draws == DrawNumbering::operands) {
              draw_once_for_all_rows(*shared, *ops, request, graph);
              check_ops(*shared, *known, request, graph.graph());
            }
            return loss;
          },
      .init_rule = [known](const std::string& weight,
                           const Shape&) { return known->init.at(weight); },
      .is_head = facts.is_head ? facts.is_head : [](const std::string&) { return false; },
      .coupling = facts.coupling,
      .eval_coupling = facts.eval_coupling,
      .ops = network.ops().empty() ? nullptr : ops,
      .shortest = facts.shortest,
      .has_marks = facts.has_marks,
      .draws = network.facts() == nullptr ? std::optional(draws) : std::nullopt};
  return described;
}

}  // namespace snug::network
