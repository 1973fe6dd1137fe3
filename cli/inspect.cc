// SPDX-License-Identifier: Apache-2.0
// snug inspect: parameters of a model; rows, lengths and labels of data.
#include <iostream>

#include "common.h"

namespace snug::cli {

int inspect_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("inspect", "Shows what a model and a data set are made of.", words,
                      arguments))
    return kDone;
  ProgressReporter reporter;
  const std::string text = inspect_run(arguments.config, arguments.is_json, run_options(reporter));
  reporter.clear();
  std::cout << text << (arguments.is_json ? "\n" : "");
  return kDone;
}

}  // namespace snug::cli
