// SPDX-License-Identifier: Apache-2.0
// The text form of a graph.
#include <string>

#include "fuzz/fuzz.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace snug::fuzz {

void read_graph_text(std::string_view input) {
  const Graph graph = parse_graph(input, op_registry());
  const std::string text = print(graph);
  require(print(parse_graph(text, op_registry())) == text, "what is printed is read");
}

}  // namespace snug::fuzz
