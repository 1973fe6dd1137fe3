// SPDX-License-Identifier: Apache-2.0
// The compilation of a network, stage by stage: its graph through every pass, kernels, plan,
// memory. And what comes of it: which ops run as one kernel and where an update's time goes.
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

/// Equal ops of an update, all runs together: their predicted time, and the machine's limit. That
/// is what its fastest products and its copies in the caches and in memory were measured to take,
/// the longer of both.
struct OpTime {
  std::string op;      // "matmul+relu": a product, and a relu in its place
  int64_t runs = 0;    // in an update
  double seconds = 0;  // of all runs, as each of the following
  double flops = 0;
  double bytes = 0;  // read and written, without what stays in a cache between merged ops
  double limit_seconds = 0;
  bool is_limited_by_memory = false;  // else by arithmetic
};

/// Ops of an update that run as one kernel, alike kernels together.
struct MergedOps {
  std::vector<std::string> ops;  // of a kernel, in order; sums onto one gradient: one of them
  std::string first;             // where the first such kernel is: a scope
  int64_t kernels = 0;           // in an update
  int64_t runs = 0;              // of ops
  double saved_bytes = 0;        // of operands that are neither read from memory nor written there
};

/// Ops that are computed by rows and run by themselves, and why.
struct ApartOps {
  std::string op;
  std::string first;  // where the first is
  std::string reason;
  int64_t runs = 0;  // in an update
  double seconds = 0;
};

struct Explanation {
  std::vector<Stage> stages;      // in order
  std::vector<OpTime> step;       // an update (or an evaluation), longest first
  std::vector<MergedOps> merged;  // most bytes saved first
  std::vector<ApartOps> apart;    // longest first
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] std::string to_json() const;
};

/// Compiles the training program of the longest rows as a session would and tells every stage, and
/// what an update of such rows runs.
/// Every graph is verified and the plan is checked. Throws as SessionPlan does.
[[nodiscard]] Explanation explain_network(const Network& network,
                                          const SessionOptions& options = {},
                                          bool has_texts = false);

}  // namespace snug
