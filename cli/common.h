// SPDX-License-Identifier: Apache-2.0
// What the verbs share: the words of the command line, exit codes, and the way from errors to both.
#pragma once

#include <string>
#include <vector>

#include "progress.h"
#include "snug/snug.h"

namespace snug::cli {

enum ExitCode : int {
  kDone = 0,
  kUserError = 1,
  kDoesNotFit = 2,
  kNumeric = 3,
  kDifferent = 4,
  kBug = 70,
  kInterrupted = 130
};

struct Arguments {
  RunConfig config;
  bool is_json = false;
};

/// Reads `-c FILE`, `--json` and every key of a run configuration. Prints help and returns false
/// where it was asked for. Throws Error{bad_config} for a word that nobody knows.
[[nodiscard]] bool read_arguments(const std::string& verb, const std::string& summary,
                                  const std::vector<std::string>& words, Arguments& arguments);

/// Options for the library: callbacks that report on stderr, the flag that signals set, the whole
/// process's budget.
[[nodiscard]] RunOptions run_options(ProgressReporter& reporter);

/// Set by SIGINT and SIGTERM; the second signal ends the process at once.
void catch_signals();
[[nodiscard]] bool was_interrupted();

// One a verb; each returns an exit code.
int plan_verb(const std::vector<std::string>& words);
int train_verb(const std::vector<std::string>& words);
int eval_verb(const std::vector<std::string>& words);
int predict_verb(const std::vector<std::string>& words);
int inspect_verb(const std::vector<std::string>& words);
int verify_verb(const std::vector<std::string>& words);

}  // namespace snug::cli
