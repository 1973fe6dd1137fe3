// SPDX-License-Identifier: Apache-2.0
// A refusal as data: what its text says, ready to be applied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "snug/error.h"
#include "snug/levers.h"

namespace snug {

/// A change with which it fits.
struct WayToFit {
  /// With their values, to be set beside what was asked for: of a run configuration, fields of
  /// SessionOptions, or options of a solver. Empty where none says it (a length that has a name).
  LeverKeys keys;
  int64_t least_bytes = 0;  // a budget that works then
  /// What an update (a batch) takes: within the budget asked for, or where the budget is what
  /// changes, within that. Nothing where there is no run.
  std::optional<double> step_seconds = {};
  bool changes_result = false;  // other weights at the end
  std::string text;             // one line for people
};

/// What a refusal knows beside its text.
struct RefusalFacts {
  /// Why, in a few lines: a proof, or the best that was found, the bound and the gap.
  std::string proof;
  std::optional<int64_t> smallest_bytes = {};  // that is known to work
  std::optional<int64_t> bound_bytes = {};     // nothing less can work
  std::vector<WayToFit> ways = {};             // the smallest budget first, where it is known
};

/// Error{out_of_budget} of a planner that knows what would do. Caught as an Error, too.
class DoesNotFit : public Error {
 public:
  DoesNotFit(const std::string& where, const std::string& message, RefusalFacts facts,
             const std::string& hint = {});

  [[nodiscard]] const RefusalFacts& facts() const { return facts_; }

 private:
  RefusalFacts facts_;
};

}  // namespace snug
