// SPDX-License-Identifier: Apache-2.0
// A named rewrite, and the one function that runs them. Which there are, and in which order,
// compile.cc says.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compile/forward.h"
#include "compile/recipe.h"
#include "runtime/lowered.h"

namespace snug::compile {

/// What stands after a stage.
struct Compiled {
  const char* stage = "";
  double seconds = 0;
  const Graph* graph = nullptr;               // of a rewrite
  const runtime::Lowered* lowered = nullptr;  // of the last stage
};
struct CompileHooks {
  /// For `snug explain`, dumps and tests; every graph was verified. Empty: graphs are verified in
  /// the end (in debug builds after every rewrite).
  std::function<void(const Compiled&)> after = {};
};

enum class Program : uint8_t { training, evaluation, prologue, update };

/// What is compiled, and for what: all that a rewrite may ask.
struct Job {
  const NetworkDef& network;
  Program program;
  BuildRequest request;  // of its forward part
  const Recipe& recipe;  // of training
  bool shares_prologue;  // what is made of weights only is made by the prologue's program
  const CompileHooks& hooks;
  const std::vector<Weight>* weights = nullptr;  // behind the forward part
  WeightPanels panels = {};                      // that evaluation packs weights into

  [[nodiscard]] const OpRegistry& ops() const { return ops_of(network); }
  [[nodiscard]] const ForwardChanges& changes() const { return network.changes; }
  [[nodiscard]] bool trains() const {
    return program == Program::training || program == Program::prologue;
  }
  [[nodiscard]] const MixedPrecision& precision() const {
    return request.training ? changes().training : changes().evaluation;
  }
};

struct Rewrite {
  const char* name;
  bool (*applies)(const Job&);
  Graph (*run)(Graph, const Job&);
};

/// Runs `make` as the stage of this name: it may be stopped before, and is timed, verified and told
/// to the hooks.
[[nodiscard]] Graph run_stage(const char* name, const CompileHooks& hooks,
                              const std::function<Graph()>& make);
/// Those that apply, in order.
[[nodiscard]] Graph run_rewrites(std::span<const Rewrite> rewrites, Graph graph, const Job& job);

}  // namespace snug::compile
