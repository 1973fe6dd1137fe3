// SPDX-License-Identifier: Apache-2.0
// snug plan: the table, or one JSON object.
#include <iostream>

#include "common.h"

namespace snug::cli {

int plan_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("plan",
                      "Shows how a run fits its budget. Needs no data and allocates no weights.",
                      words, arguments))
    return kDone;
  ProgressReporter reporter;
  const PlanReport report = plan_run(arguments.config, run_options(reporter));
  reporter.clear();
  std::cout << (arguments.is_json ? report.to_json() + "\n" : report.to_text());
  return kDone;
}

}  // namespace snug::cli
