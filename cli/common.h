// SPDX-License-Identifier: Apache-2.0
// What the verbs share: the words of the command line, exit codes, and the way from errors to both.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "progress.h"
#include "snug/snug.h"

namespace snug::cli {

// Exit codes.
inline constexpr int kDone = 0;
inline constexpr int kUserError = 1;
inline constexpr int kDoesNotFit = 2;
inline constexpr int kNumeric = 3;
inline constexpr int kDifferent = 4;
inline constexpr int kBug = 70;
inline constexpr int kInterrupted = 130;

struct Arguments {
  RunConfig config;
  bool is_json = false;
  std::string plan_file;           // plan, train
  std::string save_plan_file;      // plan, train
  std::string save_problem_file;   // plan
  std::string save_schedule_file;  // plan
  std::string html_file;           // plan
  bool has_levers = false;         // plan
  bool lists_weights = false;      // inspect
  bool has_stages = false;         // explain
};

/// Reads `-c FILE`, `--json` and every key of a run configuration. Prints help and returns false
/// where it was asked for. Throws Error{bad_config} for a word that nobody knows.
[[nodiscard]] bool read_arguments(const std::string& verb, const std::string& summary,
                                  const std::vector<std::string>& words, Arguments& arguments);

/// Options for the library: callbacks that report on stderr, the flag that signals set, the whole
/// process's budget.
[[nodiscard]] RunOptions run_options(ProgressReporter& reporter);

/// SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU ask the run to stop with a checkpoint; a
/// second SIGINT or SIGTERM ends the process at once.
void catch_signals();
[[nodiscard]] bool was_interrupted();
/// What ended a verb, on stderr.
void report(const Error& error);
/// Ends the process as an interrupted run does, with nothing given back.
[[noreturn]] void leave_interrupted(const Error& stop);
[[nodiscard]] const std::atomic<bool>* interrupt_flag();

// One a verb; each returns an exit code.
int plan_verb(const std::vector<std::string>& words);
int train_verb(const std::vector<std::string>& words);
int eval_verb(const std::vector<std::string>& words);
int predict_verb(const std::vector<std::string>& words);
int inspect_verb(const std::vector<std::string>& words);
int explain_verb(const std::vector<std::string>& words);
int verify_verb(const std::vector<std::string>& words);
int merge_verb(const std::vector<std::string>& words);
int convert_verb(const std::vector<std::string>& words);
int export_verb(const std::vector<std::string>& words);
int tokenize_verb(const std::vector<std::string>& words);
int solve_verb(const std::vector<std::string>& words);

}  // namespace snug::cli
