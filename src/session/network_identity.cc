// SPDX-License-Identifier: Apache-2.0
#include "session/network_identity.h"

#include <set>

#include "graph/builder.h"
#include "io/sha256.h"

namespace snug::session {

namespace {

constexpr int64_t kListed = 4;

// A line a node. What is kept and run again is no part of it: that changes no result.
std::string text_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    text += *node.op->name;
    for (const auto& [name, value] : node.attrs.items())
      text += " " + name + "=" + to_string(value);
    text += " of";
    for (const ValueId id : node.inputs) {
      if (id == kNone) {
        text += " _";
        continue;
      }
      const Value& value = graph.value(id);
      text += value.producer == kNone ? " '" + value.name + "':" + to_string(value.type)
                                      : " " + std::to_string(id.number());
    }
    text += "\n";
  }
  for (const ValueId id : graph.outputs)
    text += graph.value(id).name + " is " + std::to_string(id.number()) + "\n";
  return text;
}

int64_t count_of(const NetworkIdentity& network, const std::string& op) {
  const auto found = network.ops.find(op);
  return found == network.ops.end() ? 0 : found->second;
}

}  // namespace

NetworkIdentity identity_of(const compile::NetworkDef& network,
                            const compile::BuildRequest& request) {
  GraphBuilder builder(compile::ops_of(network), "identity");
  (void)network.build(builder, request);
  const Graph graph = builder.take();
  NetworkIdentity found;
  for (const Node& node : graph.nodes) ++found.ops[*node.op->name];
  const std::string text = text_of(graph);
  found.sha256 = io::sha256_of_bytes(text.data(), std::ssize(text));
  return found;
}

std::string difference(const NetworkIdentity& then, const NetworkIdentity& now) {
  if (then.sha256 == now.sha256) return {};
  std::set<std::string> names;
  for (const NetworkIdentity* each : {&then, &now}) {
    for (const auto& [name, count] : each->ops) names.insert(name);
  }
  std::string said;
  int64_t count = 0;
  for (const std::string& name : names) {
    const int64_t before = count_of(then, name);
    const int64_t after = count_of(now, name);
    if (before == after || ++count > kListed) continue;
    said += (said.empty() ? "" : ", ") + std::to_string(after) + " x " + name + " where it had " +
            std::to_string(before);
  }
  if (count > kListed) said += ", ...";
  return said.empty() ? "its ops have other attributes or other operands" : said;
}

}  // namespace snug::session
