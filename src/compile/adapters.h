// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters as a rewrite of a network's forward part, so that everything behind it (the
// backward part, the plan, updates, checkpoints) follows by itself.
//
//   y = matmul(x, W, b)   ->   y0 = matmul(x, W, b)
//                              h = matmul(dropout(x), A)        (..., r)
//                              y = matmul(scale(h, alpha / r), B, y0)
//
// The sum is the second product's bias: no third tensor of y's size. Where W is used more than once
// each use has the adapter's two weights and a dropout of its own; a use that is no linear map (a
// tied table of embeddings) reads W as it is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/network_def.h"
#include "snug/lora.h"

namespace snug::compile {

/// Throws Error{bad_config} at "lora" for numbers that are out of range.
void check_lora(const LoraOptions& lora);
/// The forward part with adapters, as `network.changes` asks for them. Throws Error{bad_config} at
/// "lora" for a pattern, a module or an expression that matches no linear map, for a weight that is
/// none or belongs to the head, and for a rule that no map follows.
[[nodiscard]] Graph add_adapters(Graph graph, const NetworkDef& network, bool training);
/// Whether a parameter is trained beside adapters and the head: all else is frozen then.
[[nodiscard]] std::function<bool(const std::string&)> trained_beside(const NetworkDef& network,
                                                                     const LoraOptions& lora);
/// What an adapter's weight begins with.
[[nodiscard]] InitRule init_of_adapter(const std::string& name, const Shape& shape);

/// Patterns for LoraOptions::match that together match all linear maps of a forward part but the
/// head, and nothing else; few where names are alike. Empty where there is none.
[[nodiscard]] std::vector<std::string> linear_map_patterns(const Graph& graph,
                                                           const NetworkDef& network);

}  // namespace snug::compile
