// SPDX-License-Identifier: Apache-2.0
// Ways in which a run can need less memory than it asks for: the one list of them. Each is data:
// words for the command line, and what they make of the request. Which of them help is not decided
// here; hints.h plans them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fit/request.h"

namespace snug::train {

/// One way, or a series of them: the same key with falling values, each of which needs less.
struct Lever {
  struct Setting {
    std::string words;  // to append to the command: "--optim sgd"
    std::function<RunPlanRequest(const RunPlanRequest&)> apply;
  };
  std::vector<Setting> settings;  // not empty
  bool changes_result = false;    // other weights at the end than those of the run as asked for
};

/// Those that change something in this request, first those that do not change the result.
[[nodiscard]] std::vector<Lever> levers_of(const RunPlanRequest& request);

}  // namespace snug::train
