// SPDX-License-Identifier: Apache-2.0
#include "choose/fusion_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "compile/compile.h"
#include "compile/group_ops.h"
#include "compile/node_names.h"
#include "graph/op_def.h"
#include "io/nearest.h"
#include "snug/error.h"

namespace snug::choose {
namespace {

constexpr const char* kOption = "fusion_overrides";

// Every program of an update, of the longest rows and the batch in as few pieces as may be.
std::vector<Graph> training_programs(const RunPlanRequest& request) {
  const int64_t rows = request.micro_batch > 0 ? request.micro_batch : request.global_batch;
  const int64_t pieces = (request.global_batch + rows - 1) / rows;
  const Lengths& longest = request.lengths.back();
  std::vector<Graph> programs;
  programs.push_back(
      compile::build_train_graph(request.network, request.recipe, {rows, longest}, pieces));
  if (pieces > 1) {
    programs.push_back(compile::build_prologue_graph(request.network, request.recipe, longest));
    if (request.recipe.updates)
      programs.push_back(compile::build_update_graph(request.network, request.recipe));
  }
  return programs;
}

// The names of a network's ops and scopes, and what patterns of this form would call them: "*.gelu"
// of "encoder.layer.3.gelu".
std::vector<std::string> alike(const std::string& pattern, const std::set<std::string>& names) {
  const bool has_open_begin = pattern.starts_with('*');
  const bool has_open_end = pattern.size() > 1 && pattern.ends_with('*');
  std::set<std::string> found;
  for (const std::string& name : names) {
    stop_point();
    found.insert(name);
    std::vector<size_t> dots;
    for (size_t at = name.find('.'); at != std::string::npos; at = name.find('.', at + 1))
      dots.push_back(at);
    std::vector<std::string> ends = {name};
    if (has_open_begin) {
      for (const size_t dot : dots) ends.push_back("*" + name.substr(dot));
    }
    for (const std::string& end : ends) {
      found.insert(end);
      for (size_t at = end.find('.', 2); has_open_end && at != std::string::npos;
           at = end.find('.', at + 1))
        found.insert(end.substr(0, at + 1) + "*");
    }
  }
  return {found.begin(), found.end()};
}

class Check {
 public:
  Check(const compile::FusionLevels& levels, const Backend& backend)
      : levels_(levels), backend_(backend), uses_(levels.overrides.size()) {}

  void look_at(const Graph& graph) {
    std::set<NodeId> followed;  // what an op by rows may write over in the same op
    for (const std::vector<NodeId>& nodes : compile::group_ops(graph, backend_).nodes)
      followed.insert(nodes.begin(), nodes.end() - 1);
    for (const NodeId id : graph.nodes.ids()) {
      stop_point();
      const Node& node = graph.node(id);
      names_.insert(node.scope.str());
      names_.insert(compile::full_name(node));
      const size_t first = levels_.rule_of(node);
      for (size_t i = 0; i < uses_.size(); ++i) {
        Use& use = uses_[i];
        if (i < first || (i > first && !compile::names_node(levels_.overrides[i].match, node)))
          continue;
        if (i > first) {
          use.has_later = true;
        } else if (!use.is_of_use) {
          use.is_of_use = followed.count(id) != 0 || is_by_rows(graph, id);
          use.ops.insert(*node.op->name);
        }
      }
    }
  }

  void refuse() const {
    for (size_t i = 0; i < uses_.size(); ++i) {
      const std::string& match = levels_.overrides[i].match;
      const Use& use = uses_[i];
      if (use.is_of_use) continue;
      if (use.ops.empty() && use.has_later)
        refuse(match, "comes after patterns that match all its ops",
               "put it before them: the first match wins");
      if (use.ops.empty()) refuse(match, "matches no op of the network", nearest_to(match));
      refuse(match, "matches no op that runs with others (" + joined(use.ops) + ")",
             "`snug explain` lists those that are");
    }
  }

 private:
  struct Use {
    std::set<std::string> ops;  // of the nodes that it decides, as long as it is of no use
    bool is_of_use = false;
    bool has_later = false;  // it names nodes that a rule before it decides
  };

  [[noreturn]] static void refuse(const std::string& match, const std::string& what,
                                  const std::string& hint) {
    throw Error(ErrorCode::bad_config, kOption, "the pattern '" + match + "' " + what, hint);
  }

  static std::string joined(const std::set<std::string>& ops) {
    constexpr size_t kMost = 4;
    std::string text;
    size_t count = 0;
    for (const std::string& op : ops) {
      if (count++ == kMost) return text + ", ...";
      text += (text.empty() ? "" : ", ") + op;
    }
    return text;
  }

  [[nodiscard]] std::string nearest_to(const std::string& match) const {
    const std::string lists = "`snug explain --stages` shows every op with its scope";
    const std::string nearest = io::nearest_name(match, alike(match, names_));
    return nearest.empty() ? lists : "did you mean '" + nearest + "'? " + lists;
  }

  // Views have no kernel.
  [[nodiscard]] bool is_by_rows(const Graph& graph, NodeId id) {
    if (graph.node(id).op->alias->kind == AliasKind::view) return false;
    const NodeSpec spec = spec_of(graph, id);
    const auto [known, is_new] = is_by_rows_.try_emplace(signature_of(spec), false);
    if (is_new) known->second = backend_.select(spec).row_form.is_given();
    return known->second;
  }

  const compile::FusionLevels& levels_;
  const Backend& backend_;
  std::vector<Use> uses_;
  std::set<std::string> names_;
  std::map<std::string, bool> is_by_rows_;  // by signature
};

}  // namespace

void refuse_unused_fusion(const RunPlanRequest& request, const Backend& backend) {
  if (request.fusion.overrides.empty() || !request.trains) return;
  Check check(request.fusion, backend);
  for (const Graph& program : training_programs(request)) check.look_at(program);
  check.refuse();
}

}  // namespace snug::choose
