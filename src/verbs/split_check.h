// SPDX-License-Identifier: Apache-2.0
// Compares two splits of one global batch. They add the same numbers in another order, so their
// gradients agree within a bound that follows from the graph and the gradients themselves.
//
// The bound. Every output of a node is a sum of s numbers (flops / output elements of its cost).
// Rounding errors of u = 2^-24 relative to what is summed are independent in sign, so over all
// nodes of a step they amount to lambda u sqrt(sum of s) of it, except with a probability of 2
// exp(-lambda^2 / 2) (Higham and Mary, 2019); lambda = 8. What is summed: the gradients of the
// micro-batches, each with its own norm, since large ones may cancel. A row that is lost, counted
// twice or weighed wrongly moves the gradient by a share of about 1 / rows, far above.
#pragma once

#include <string>

#include "verbs/prepare.h"

namespace snug::verbs {

struct SplitCase {
  const RunConfig& config;
  const RunSetup& setup;
  std::string file;  // a scratch file, of the gradients' size
};

struct SplitDifference {
  double found = 0;     // norm of the difference over all weights
  double allowed = 0;   // by rounding
  double gradient = 0;  // norm of what is compared
  [[nodiscard]] bool is_rounding() const { return found <= allowed; }
};

/// Whether compare_splits can see gradients behind the run's optimizer: a state holds them, or
/// there is none and the weights show them.
[[nodiscard]] bool shows_gradients(const RunConfig& config);
/// The run with an optimizer behind which gradients are seen, and which has no states.
[[nodiscard]] RunConfig with_plain_updates(const RunConfig& config);

/// The first update of the run under both plans, from the same weights. Compared is what the
/// optimizer keeps of the gradient (its first state), or the weights where it keeps nothing. At
/// least one of the plans has more than one micro-batch. The optimizer must show its gradients.
[[nodiscard]] SplitDifference compare_splits(const SplitCase& it, const SessionPlan& first,
                                             const SessionPlan& second);

}  // namespace snug::verbs
