// SPDX-License-Identifier: Apache-2.0
// How rules of options name nodes of a network: by scope, or by scope and op.
#pragma once

#include <string>

#include "graph/graph.h"

namespace snug::compile {

/// Scope and op: "bert.encoder.layer.3.gelu".
[[nodiscard]] std::string full_name(const Node& node);
/// Whether the pattern (* matches any text) is of the node's scope, or of scope and op.
[[nodiscard]] bool names_node(const std::string& match, const Node& node);

}  // namespace snug::compile
