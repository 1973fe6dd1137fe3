// SPDX-License-Identifier: Apache-2.0
// The objects by which other systems ask for recomputation, thin over a session: TensorFlow's
// gradients(ys, xs, checkpoints), Paddle's RecomputeOptimizer, Hugging Face's
// gradient_checkpointing_enable. What marks a network from within is in snug/recompute.h,
// docs/coming-from.md has their lines beside ours.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "snug/session.h"

namespace snug {

/// What stays for the backward part, as cybertronai's gradients() is told: "collection" (the
/// network's own keep() and checkpoint()), "memory", "speed", or tensors by name (* matches any
/// text), in any order. Throws Error{bad_config} for another word and for a list that is empty.
class Checkpoints {
 public:
  Checkpoints(const char* word);                         // NOLINT: "memory" is one
  Checkpoints(std::vector<std::string> names);           // NOLINT: so is a list
  Checkpoints(std::initializer_list<std::string> names)  // NOLINT
      : Checkpoints(std::vector<std::string>(names)) {}
  /// As SessionOptions::recompute has it.
  [[nodiscard]] const std::string& strategy() const { return strategy_; }

 private:
  std::string strategy_;
};

/// A session that gives the gradients of what `ys` minimizes by the weights `xs` (names or
/// patterns; none: all of them), with Session::gradients, and updates nothing. It is no value of
/// the network: the rows of a micro-batch are open while a network is built, and what gradients
/// need in memory is known when the whole step is. Options of an optimizer are refused; so is
/// "memory" or "speed" where nothing can be run again.
[[nodiscard]] Session gradients(const Network& ys, const std::vector<std::string>& xs = {},
                                const Checkpoints& checkpoints = "collection",
                                SessionOptions options = {});

/// An optimizer that recomputes: wrap the options, set the checkpoints, minimize.
class RecomputeOptimizer {
 public:
  /// Throws Error{bad_config} where the options say already what is recomputed.
  explicit RecomputeOptimizer(SessionOptions optimizer);
  RecomputeOptimizer& set_checkpoints(const Checkpoints& checkpoints);
  /// Throws Error{bad_config} without checkpoints.
  [[nodiscard]] Session minimize(const Network& cost) const;
  [[nodiscard]] const SessionOptions& options() const { return options_; }

 private:
  SessionOptions options_;
};

/// Every block of the network but the last keeps only its input.
void gradient_checkpointing_enable(SessionOptions& options);
/// Nothing is recomputed.
void gradient_checkpointing_disable(SessionOptions& options);

}  // namespace snug
