// SPDX-License-Identifier: Apache-2.0
// Builds a graph node by node; types are inferred and checked at every call. One builder, one
// graph. A rewrite of a graph is a builder, too (compile/rewriter.h).
#pragma once

#include <initializer_list>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/op_def.h"

namespace snug {

class GraphBuilder {
 public:
  GraphBuilder(const OpRegistry& registry, std::string name);
  /// Continues an existing graph: its names are taken, its random ops and parts are counted.
  GraphBuilder(const OpRegistry& registry, Graph graph);

  [[nodiscard]] ValueId input(const std::string& name, TensorType type);
  /// While weights are shared, the one of this name and type where there is one. One that is not
  /// shared may come behind those that share it: the order in which a compiler evaluates operands
  /// is not the network's.
  [[nodiscard]] ValueId parameter(const std::string& name, TensorType type);
  [[nodiscard]] ValueId buffer(const std::string& name, TensorType type);
  [[nodiscard]] ValueId state(const std::string& name, TensorType type);

  /// Appends a node and returns its outputs. Optional inputs that are not given are kNone.
  std::vector<ValueId> op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});
  /// The same for an op with one output.
  ValueId op1(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});

  void mark_output(ValueId id, const std::string& name);
  /// Names a computed value that has no name yet.
  void set_name(ValueId id, const std::string& name);
  void mark_kept(ValueId id) { graph_.values[id].is_marked = true; }

  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.type(id); }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] Graph take() { return std::move(graph_); }

  /// Numbers random ops in the order of building: part of their key, fixed from here on.
  [[nodiscard]] int64_t next_random_ordinal() { return random_ordinal_++; }

  // The scope, the parts and the phase of the nodes that follow; set through guards.
  [[nodiscard]] const SharedText& scope() const { return scope_; }
  void set_scope(SharedText scope) { scope_ = std::move(scope); }
  [[nodiscard]] bool shares_weights() const { return shares_weights_; }
  void set_shares_weights(bool is_on) { shares_weights_ = is_on; }
  [[nodiscard]] const std::vector<int32_t>& parts() const { return parts_; }
  void set_parts(std::vector<int32_t> parts) { parts_ = std::move(parts); }
  /// A new part within those that the nodes that follow lie in.
  [[nodiscard]] std::vector<int32_t> inner_part() {
    std::vector<int32_t> parts = parts_;
    parts.push_back(next_part_++);
    return parts;
  }
  [[nodiscard]] Phase phase() const { return phase_; }
  void set_phase(Phase phase) { phase_ = phase; }

 protected:
  [[nodiscard]] Graph& changed_graph() { return graph_; }

 private:
  ValueId add_resident(const std::string& name, TensorType type, ValueKind kind);
  [[nodiscard]] std::unordered_set<std::string>& names();

  const OpRegistry* registry_;
  Graph graph_;
  std::unordered_set<std::string> names_;  // of the graph's values, once they are asked for
  bool has_names_ = false;
  std::unordered_set<std::string> borrowed_;  // weights that have been shared only so far
  SharedText scope_;
  bool shares_weights_ = false;
  std::vector<int32_t> parts_;
  int32_t next_part_ = 0;
  Phase phase_ = Phase::forward;
  int64_t random_ordinal_ = 0;
};

/// Appends `name` to the scope for its lifetime: ScopeGuard guard(b, "layer.3").
class ScopeGuard {
 public:
  ScopeGuard(GraphBuilder& builder, const std::string& name)
      : builder_(builder), before_(builder.scope()) {
    builder.set_scope(before_.empty() ? name : before_.str() + "." + name);
  }
  ~ScopeGuard() { builder_.set_scope(before_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  GraphBuilder& builder_;
  SharedText before_;
};

class PhaseGuard {
 public:
  PhaseGuard(GraphBuilder& builder, Phase phase) : builder_(builder), before_(builder.phase()) {
    builder.set_phase(phase);
  }
  ~PhaseGuard() { builder_.set_phase(before_); }
  PhaseGuard(const PhaseGuard&) = delete;
  PhaseGuard& operator=(const PhaseGuard&) = delete;

 private:
  GraphBuilder& builder_;
  Phase before_;
};

}  // namespace snug
