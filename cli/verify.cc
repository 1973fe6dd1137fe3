// SPDX-License-Identifier: Apache-2.0
// snug verify: exit code 4 where a plan changes a result or planned is not measured.
#include <iostream>

#include "common.h"
#include "terminal.h"

namespace snug::cli {

int verify_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("verify", "Proves on your model and data that plans do not change results.",
                      words, arguments))
    return kDone;
  ProgressReporter reporter;
  const VerifyReport report = verify_run(arguments.config, run_options(reporter));
  reporter.clear();
  if (arguments.is_json) {
    std::cout << report.to_json() << "\n";
  } else {
    for (const VerifyCheck& check : report.checks) {
      const char* verdict = check.is_skipped ? "skipped  "
                            : check.is_equal ? "equal    "
                                             : "DIFFERENT";
      print(std::string(verdict) + "  " + check.name + "\n           " + check.detail + "\n");
    }
  }
  return report.is_equal() ? kDone : kDifferent;
}

}  // namespace snug::cli
