// SPDX-License-Identifier: Apache-2.0
// What a caller's network says of itself while it is built, beside its graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/network_def.h"
#include "snug/custom_op.h"
#include "snug/network.h"

namespace snug::network {

/// A value that is fed row by row: (rows, row_shape...).
struct FedInput {
  std::string name;
  DType dtype = DType::f32;
  Shape row_shape;                    // in the longest program
  std::optional<std::string> length;  // the name of the length that is its first axis
  /// How much a row counts: 0 in rows that only fill up a micro-batch, 1 in the others where the
  /// source does not say it.
  bool is_weight = false;
  bool operator==(const FedInput&) const = default;
};

/// What a mean over the global batch is divided by.
struct MeanTotal {
  std::string name;     // of the fed value f32[]: 1 / total
  std::string weights;  // the input whose elements are summed up; empty: every row counts
  int64_t each = 1;     // what an element, or a row, counts
  /// A batch that weighs nothing has no loss and no gradient; otherwise it is an error.
  bool may_be_zero = false;
  bool operator==(const MeanTotal&) const = default;
};

}  // namespace snug::network

namespace snug {

struct NetworkFacts {
  std::map<std::string, InitRule> init;  // by weight
  std::vector<network::FedInput> inputs;
  std::vector<network::MeanTotal> means;
  std::vector<std::string> outputs;
  std::string coupling;       // of rows in training; empty: none
  std::string eval_coupling;  // in evaluation
  /// Values of the graph built last whose rows must depend only on their own row.
  std::vector<ValueId> by_row;
  bool counts_padding = false;  // what fills shorter rows up may count
  /// Weights of parts that share theirs, and how many parts have each where there are the most.
  std::map<std::string, int64_t> shared_by = {};
  bool has_marks = false;         // tensors to be kept, or parts to be run again
  std::set<std::string> lengths;  // names of those that it asks for
  /// Where shorter rows take less memory: the shortest that it can be built for.
  Lengths shortest = {};
  /// What its programs for the longest rows compute with (op_digests), where its rows are
  /// independent: the same for every number of rows. Empty: it was not looked at.
  Lengths longest = {};
  IdVector<NodeId, uint64_t> training_ops, evaluation_ops;
  /// What is trained for the task, and stays trainable when the rest is frozen; empty: nothing is
  /// told apart.
  std::function<bool(const std::string& parameter)> is_head = {};
};

struct NetworkBuilder::State {
  GraphBuilder& graph;
  const compile::BuildRequest& request;
  NetworkFacts& facts;
  ValueId row_weights = kNone;
  ValueId random_key = kNone;  // of the library's own ops
  int64_t own_keys = 0;        // that the function asked for
  ValueId loss = kNone;
  // Weights by what parts say of them that have them, and that share them: other things than
  // another part that shares them, too.
  std::set<std::string> owned = {}, disputed = {};
  std::map<std::string, InitRule> shared_rules = {};
  std::map<std::string, int64_t> uses = {};  // parts that have a weight or share it
  std::vector<ValueId> means = {};
  std::vector<ValueId> by_row = {};  // values whose rows must depend on their own row only
  bool is_gradient = false;          // of a caller's op: it has operands, and no network around it
};

}  // namespace snug

namespace snug::network {

/// Public headers have plain numbers for values; none is a tensor that is not given. Throws
/// Error{invalid_graph} for one that is not given, or of another building.
[[nodiscard]] ValueId value_of(const NetworkBuilder& builder, const Tensor& tensor,
                               const char* what);
[[nodiscard]] Tensor tensor_in(NetworkBuilder& builder, ValueId id);

/// Throws Error{invalid_graph} in the gradient of an op, which is built of its operands only.
void require_network(const NetworkBuilder& builder, const char* call);
/// Throws Error{invalid_graph} for a name that updates and batches have for themselves.
void check_name(const NetworkBuilder& builder, const std::string& name);

/// What a weight begins with, as the part says that has it. Where none has it, those that share it
/// must agree: which of them comes first is the compiler's affair.
void record_rule(const NetworkBuilder& builder, const std::string& weight, const InitRule& rule);
/// The key of the library's own ops, which are told apart by their ordinals.
[[nodiscard]] ValueId shared_random_key(NetworkBuilder& builder);

/// Lets draws that no row is behind (dropout of a weight) be the same for all rows of an update:
/// otherwise each micro-batch would have its own. What has rows is told by building the network
/// once more, where it has such draws.
void draw_once_for_all_rows(const Network& network, const OpRegistry& ops,
                            const compile::BuildRequest& request, GraphBuilder& graph);

/// A network for two numbers of rows and the same lengths.
struct RowProbe {
  const OpRegistry& ops;
  const Graph& graph;
  const Graph& other;
  int64_t rows = 0;
  int64_t other_rows = 0;
  bool has_gradients = false;  // of its callers' ops
  DrawNumbering draws = DrawNumbering::operands;
};
/// A digest for every node of what it is and computes with: its op and its attributes, but shapes.
[[nodiscard]] IdVector<NodeId, uint64_t> op_digests(const Graph& graph);
/// Why the rows of one of these values depend on each other: the first op that couples them; empty
/// where none does. Inputs are told by name.
[[nodiscard]] std::string row_coupling(const RowProbe& probe, const std::vector<ValueId>& values);

/// What an output or the loss is made of that counts the places that fill rows up, in a program for
/// longer rows and in one for shorter ones; empty where nothing does, and where the two are built
/// of other ops.
[[nodiscard]] std::string counted_padding(const Graph& graph, const Graph& shorter);

/// Builds the network once. Returns the loss in training, kNone in evaluation; fills `facts`.
ValueId build_network(const Network& network, GraphBuilder& graph,
                      const compile::BuildRequest& request, NetworkFacts& facts);

/// The network with its facts: what is `known` beforehand, and what its function says, here of one
/// row of length 1. Planning then builds it for its programs only.
[[nodiscard]] Network with_known_facts(const Network& network, NetworkFacts known);

/// The ops of the program and these. Throws Error{bad_config} for one that says too little, or a
/// name that is taken.
[[nodiscard]] std::shared_ptr<const OpRegistry> registry_with(
    const std::vector<std::shared_ptr<const CustomOp>>& ops);

/// What is said of weights that are shared with no other part; empty where there are none.
[[nodiscard]] std::string unshared_notice(const NetworkFacts& facts);

/// As planning and training want it. Without facts it is built in training and in evaluation to
/// find them; throws Error{invalid_graph} where the two contradict each other. `lengths`: of its
/// programs, as SessionOptions has them.
struct DescribedNetwork {
  compile::NetworkDef def;
  NetworkFacts facts;
};
[[nodiscard]] DescribedNetwork describe_network(const Network& network,
                                                const std::vector<Lengths>& lengths,
                                                DrawNumbering draws = DrawNumbering::operands);

}  // namespace snug::network
