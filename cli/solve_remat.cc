// SPDX-License-Identifier: Apache-2.0
// snug solve remat: a schedule within a budget for the graph in a file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "common.h"
#include "snug/files.h"
#include "snug/solve_remat.h"
#include "solve.h"
#include "terminal.h"
#include "words.h"

namespace snug::cli {

int solve_remat_verb(const std::vector<std::string>& words) {
  RematRequest request;
  std::string order = "free";
  std::string effort = "default";
  std::string time_limit;
  std::string output;
  bool is_json = false;
  bool is_curve = false;
  CLI::App app(
      "Finds the cheapest schedule of a graph within a budget; ops may run more than once. "
      "docs/solve.md describes the files.",
      "snug solve remat");
  app.add_option("file", request.file, "Problem (JSON)")->required();
  app.add_option("--budget", request.budget,
                 "Bytes (4096, 1.5GiB), or with a decimal point a fraction of the peak of the "
                 "listed order without recomputation (0.6)");
  app.add_option("--order", order,
                 "given: first runs keep the listed order; free: they may leave it (default)");
  app.add_option(
      "--effort", effort,
      "fast (up to 0.5 s), default (1 s up to 500 ops, 3 s up to 5,000) or best (a minute "
      "and more); counted, so that the result is always the same");
  app.add_option(
      "--time-limit", time_limit,
      "Seconds (above 0) after which the search stops where it stands; without it the limits are "
      "counts, and the result is always the same");
  app.add_option("--output", output, "File for the result, schedule included (JSON)");
  app.add_flag("--curve", is_curve, "The whole trade-off instead of one budget");
  app.add_flag("--json", is_json, "Print one JSON object and nothing else");
  if (!parse_words(app, words)) return kDone;
  if (app.count("--time-limit") > 0) request.time_limit_seconds = parse_time_limit(time_limit);
  if (order != "given" && order != "free") {
    throw Error(ErrorCode::bad_config, "--order", "\"" + order + "\" is no order",
                "given and free are");
  }
  if (is_curve == !request.budget.empty()) {
    throw Error(ErrorCode::bad_config, "--budget",
                is_curve ? "has no meaning beside --curve" : "is missing",
                "give --budget BYTES|FRACTION or --curve");
  }
  check_output(request.file, output);
  request.effort = parse_effort(effort);
  request.may_reorder = order == "free";
  request.cancel = interrupt_flag();
  if (is_curve) {
    const RematCurve curve = remat_curve(request);
    if (!output.empty()) write_text(output, curve.to_json() + "\n");
    print(is_json ? curve.to_json() + "\n" : curve.to_text(), is_json);
    return was_interrupted() ? kInterrupted : kDone;
  }
  const RematReport report = solve_remat(request);
  if (is_json) std::cout << report.to_json() << "\n";
  if (!report.fits && was_interrupted())
    throw Error(ErrorCode::cancelled, request.file,
                "stopped on request; no schedule was found yet");
  if (!report.fits) throw Error(ErrorCode::out_of_budget, request.file, report.refusal());
  if (!output.empty()) write_text(output, report.to_json() + "\n");
  if (!is_json) print(report.to_text());
  return was_interrupted() ? kInterrupted : kDone;
}

}  // namespace snug::cli
