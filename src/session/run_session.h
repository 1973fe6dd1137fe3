// SPDX-License-Identifier: Apache-2.0
// A session as the program `snug` opens it: beside its options, what only a run of the program
// knows, and a caller's own program has no need of. The one header of this folder that the verbs
// include; all that it includes is public.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snug/explain.h"
#include "snug/levers.h"
#include "snug/session.h"

namespace snug::session {

/// What a smaller problem takes.
struct SessionSizes {
  std::vector<Lengths> lengths;
  int64_t batch_rows = 0;
  int64_t process_bytes = 0;
  int64_t startup_bytes = 0;
};

struct ChangedRun;

struct RunSession {
  SessionOptions options;
  /// Rows of the next batch are read while one is trained on, where the budget has bytes left for
  /// that (PlanReport::read_ahead_bytes).
  bool reads_ahead = false;
  /// The file of the rows, which is held in memory instead where it has as many bytes left
  /// (PlanReport::held_rows_bytes).
  int64_t row_file_bytes = 0;
  /// A refusal tries shorter rows and smaller batches: what the options that depend on them are
  /// then. Empty: lengths above the longest go, bytes of the process stay.
  std::function<SessionSizes(const Lengths& longest, int64_t batch_rows)> resized = {};
  /// The run with these keys of its configuration set, and itself so that more may be set. Throws
  /// Error{bad_config} where they may not be. Empty: the fields of these keys.
  std::function<ChangedRun(const LeverKeys& keys)> changed = {};
  /// A refusal says what would help as options of the program, not as fields of SessionOptions.
  bool has_command_line_hints = false;
  /// The times of hints are called upper bounds, since the run takes levers as they pay.
  bool may_take_levers = false;
  /// Keys of the options that are levers which the run took. A hint that means nothing without them
  /// names them.
  LeverKeys taken_levers = {};
};

/// A run with keys of its configuration set.
struct ChangedRun {
  Network network;
  RunSession session;
};

/// As the functions and the constructor of these names in snug/session.h and snug/explain.h, whose
/// options alone are the special case of a caller's own program.
[[nodiscard]] SessionPlan plan_session(const Network& network, const RunSession& session);
[[nodiscard]] std::vector<LeverPlan> plan_levers(const Network& network, const RunSession& session,
                                                 const std::vector<std::string>& allow);
[[nodiscard]] std::vector<LeverPlan> plan_allowed_levers(const Network& network,
                                                         const RunSession& session,
                                                         const std::vector<std::string>& allow);
[[nodiscard]] Explanation explain_network(const Network& network, const RunSession& session,
                                          bool has_texts);

}  // namespace snug::session
