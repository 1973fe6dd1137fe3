// SPDX-License-Identifier: Apache-2.0
// snug predict: one JSON line a row, in the order of the file.
#include <iostream>

#include "common.h"

namespace snug::cli {

int predict_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments(
          "predict",
          "Labels the rows of test_file, else validation_file. Prints one JSON line a row.", words,
          arguments)) {
    return kDone;
  }
  ProgressReporter reporter;
  predict_rows(
      arguments.config,
      [](const Prediction& prediction) {
        std::cout << prediction.to_json() << "\n";
        if (!std::cout)
          throw Error(ErrorCode::io, "standard output", "cannot write the predictions");
      },
      run_options(reporter));
  return kDone;
}

}  // namespace snug::cli
