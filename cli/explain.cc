// SPDX-License-Identifier: Apache-2.0
// snug explain: the compilation of a run, stage by stage.
#include "common.h"
#include "terminal.h"

namespace snug::cli {

int explain_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments(
          "explain",
          "Compiles a run and tells every stage: what stands then, and how long it took. Then "
          "where an update's time goes, op by op, what runs as one kernel, and why the rest does "
          "not.",
          words, arguments))
    return kDone;
  ProgressReporter reporter;
  RunOptions options = run_options(reporter);
  options.wants_stage_texts = arguments.has_stages;
  const Explanation explanation = explain_run(arguments.config, options);
  reporter.clear();
  print(arguments.is_json ? explanation.to_json() + "\n" : explanation.to_text(),
        arguments.is_json);
  return kDone;
}

}  // namespace snug::cli
