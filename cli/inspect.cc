// SPDX-License-Identifier: Apache-2.0
// snug inspect: parameters of a model; rows, lengths and labels of data.
#include "common.h"
#include "terminal.h"

namespace snug::cli {

int inspect_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("inspect", "Shows what a model and a data set are made of.", words,
                      arguments))
    return kDone;
  ProgressReporter reporter;
  RunOptions options = run_options(reporter);
  options.lists_weights = arguments.lists_weights;
  const std::string text = inspect_run(arguments.config, arguments.is_json, options);
  reporter.clear();
  print(arguments.is_json ? text + "\n" : text, arguments.is_json);
  return kDone;
}

}  // namespace snug::cli
