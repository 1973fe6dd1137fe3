// SPDX-License-Identifier: Apache-2.0
// snug eval: one JSON object with the metrics.
#include <iostream>

#include "common.h"

namespace snug::cli {

int eval_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("eval",
                      "Evaluates a trained model on test_file, else validation_file, else the "
                      "held-out rows. Prints JSON.",
                      words, arguments)) {
    return kDone;
  }
  ProgressReporter reporter;
  const EvalMetrics metrics = evaluate_model(arguments.config, run_options(reporter));
  reporter.clear();
  std::cout << to_json(metrics) << "\n";
  return kDone;
}

}  // namespace snug::cli
