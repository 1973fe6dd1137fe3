// SPDX-License-Identifier: Apache-2.0
// The order of the passes; nothing else knows it.
#pragma once

#include <functional>
#include <string>

#include "graph/op_def.h"

namespace snug {

struct PipelineHooks {
  /// Called after every pass with its name and result; for `snug explain`, dumps and tests.
  std::function<void(const std::string& pass, const Graph& graph)> after_pass;
};

/// Takes a graph with forward, backward and update nodes to the graph that kernels are selected
/// for. Verifies the result; debug builds that of every pass.
[[nodiscard]] Graph run_pipeline(Graph graph, const OpRegistry& registry,
                                 const PipelineHooks& hooks = {});

}  // namespace snug
