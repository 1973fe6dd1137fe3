// SPDX-License-Identifier: Apache-2.0
// snug solve check: replays a schedule and judges it.
#include <CLI/CLI.hpp>

#include "common.h"
#include "snug/solve_remat.h"
#include "solve.h"
#include "terminal.h"
#include "words.h"

namespace snug::cli {

int solve_check_verb(const std::vector<std::string>& words) {
  std::string problem;
  std::string schedule;
  bool is_json = false;
  CLI::App app("Replays a schedule: its peak and cost, or what is wrong with it (exit code 1).",
               "snug solve check");
  app.add_option("problem", problem, "Problem (JSON)")->required();
  app.add_option("schedule", schedule,
                 "A JSON list of op ids, or an object with such a \"schedule\"")
      ->required();
  app.add_flag("--json", is_json, "Print one JSON object and nothing else");
  if (!parse_words(app, words)) return kDone;
  const RematCheck check = check_remat(problem, schedule);
  print(is_json ? check.to_json() + "\n" : check.to_text(), is_json);
  return check.violations.empty() ? kDone : kUserError;
}

}  // namespace snug::cli
