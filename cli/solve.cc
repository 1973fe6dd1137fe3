// SPDX-License-Identifier: Apache-2.0
// snug solve: the planner alone, on problem files.
#include "solve.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "common.h"
#include "terminal.h"

namespace snug::cli {
namespace {

struct SubVerb {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>&);
};

constexpr SubVerb kSubVerbs[] = {
    {"placement", "offsets for lifetimes and sizes", solve_placement_verb},
    {"remat", "the cheapest schedule of a graph within a budget", solve_remat_verb},
    {"check", "replay a schedule: its peak and cost", solve_check_verb},
};

void print_solve_help(std::ostream& out) {
  out << "snug solve runs the planner on a problem file, as docs/solve.md describes.\n\n"
         "usage: snug solve SUBVERB FILE [--option value ...]\n\n";
  for (const SubVerb& each : kSubVerbs) {
    out << "  " << each.name << std::string(12 - std::string(each.name).size(), ' ') << each.summary
        << "\n";
  }
  out << "\n`snug solve SUBVERB --help` lists the options.\n";
}

}  // namespace

void check_output(const std::string& problem, const std::string& output) {
  std::error_code none;
  if (output.empty() || !std::filesystem::equivalent(problem, output, none)) return;
  throw Error(ErrorCode::bad_config, "--output", "is the problem's own file, " + problem,
              "give another file for the result");
}

int solve_verb(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "-h" || words[0] == "--help") {
    print_solve_help(words.empty() ? std::cerr : std::cout);
    return words.empty() ? kUserError : kDone;
  }
  for (const SubVerb& each : kSubVerbs) {
    if (words[0] == each.name) return each.run({words.begin() + 1, words.end()});
  }
  throw Error(ErrorCode::bad_config, "solve " + words[0], "there is no such sub-verb",
              "`snug solve --help` lists them");
}

}  // namespace snug::cli
