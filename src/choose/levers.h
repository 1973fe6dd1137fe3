// SPDX-License-Identifier: Apache-2.0
// Levers: changes of a run that change what it needs. The one list of them; each is data: keys of
// the configuration with values, and what they make of the request. Which of them help is not
// decided here: hints.h plans them for a refusal, session/levers.cc for a table and for what a run
// is allowed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "choose/request.h"

namespace snug::choose {

/// One lever, or a series of them: the same key with falling values, or the same keys and one more,
/// each of which needs less. A table has the first only.
struct Lever {
  struct Setting {
    std::string words;    // to append to the command: "--optim sgd"
    LeverKeys keys = {};  // the same as data; empty of a length that has a name
    std::function<RunPlanRequest(const RunPlanRequest&)> apply;  // throws Error{bad_config}
  };
  std::vector<Setting> settings = {};  // not empty
  bool changes_result = false;  // other weights at the end than those of the run as asked for
  std::string part = {};        // of the run; of one part there can be one lever only
  std::string word = {};        // of kLeverWords, under which a run may take it; empty: never
  bool is_hint = true;          // a way to need less that a refusal tries
  bool is_compared = true;      // in the table
};

/// Those that change something in this request, first those that do not change the result.
[[nodiscard]] std::vector<Lever> levers_of(const RunPlanRequest& request);

/// Levers that are set together.
struct LeverChoice {
  LeverKeys keys;
  bool changes_result = false;
  size_t levers = 0;
};
/// Every choice of at most one lever (its first setting) of each part, fewest levers first: the
/// first is none.
[[nodiscard]] std::vector<LeverChoice> choices_among(const std::vector<const Lever*>& levers);

}  // namespace snug::choose
