// SPDX-License-Identifier: Apache-2.0
// The text form of a graph, both ways: print(parse(text)) == text for every printed graph.
//
//   graph "mlp" {
//     %0 = input "x" : f32[8,4]
//     %1 = parameter "w" : f32[3,4]
//     %2 = matmul(%0, %1) {transpose_b=true} : f32[8,3] @"layer.0" forward
//     output "y" %2
//     mark %2
//   }
// `name "h" %2` names a value that is no output. Numbers behind the phase are a node's parts:
// forward [0, 2]. A node with several outputs reads "%3, %4 = op(...) : type, type". An absent
// optional input is "_". Attributes that have their default value are not printed.
#pragma once

#include <string>
#include <string_view>

#include "graph/op_def.h"

namespace snug {

[[nodiscard]] std::string print(const Graph& graph);
/// "encoder.layer.3/softmax": a node in messages for people who have not seen the graph's text.
[[nodiscard]] std::string scoped_name(const Node& node);
/// "%12 encoder.layer.3/softmax": a node in messages.
[[nodiscard]] std::string describe(const Graph& graph, NodeId node);
/// Throws Error{invalid_graph}, or {shape_mismatch} where types do not fit, with "line N" as its
/// place; what verify() alone can see (a resident that is read after it was overwritten) has the
/// node as its place.
[[nodiscard]] Graph parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace snug
