// SPDX-License-Identifier: Apache-2.0
// The compilation of a network, stage by stage: its graph through every pass, kernels, plan,
// memory.
#pragma once

#include <string>
#include <vector>

#include "snug/session.h"

namespace snug {

/// One stage on the way to programs that are bound to memory.
struct Stage {
  std::string name;
  double seconds = 0;
  std::string result;  // what stands then, in a line
  std::string text;    // all of it: a graph, a problem, a plan; empty unless texts are asked for
};
struct Explanation {
  std::vector<Stage> stages;  // in order
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] std::string to_json() const;
};

/// Compiles the training program of the longest rows as a session would and tells every stage.
/// Every graph is verified and the plan is checked. Throws as SessionPlan does.
[[nodiscard]] Explanation explain_network(const Network& network,
                                          const SessionOptions& options = {},
                                          bool has_texts = false);

}  // namespace snug
