// SPDX-License-Identifier: Apache-2.0
// snug plan: the table, or one JSON object.
#include "common.h"
#include "snug/files.h"
#include "terminal.h"

namespace snug::cli {

int plan_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("plan",
                      "Shows how a run fits its budget. Needs no data and allocates no weights.",
                      words, arguments))
    return kDone;
  ProgressReporter reporter;
  RunOptions options = run_options(reporter);
  options.plan_file = arguments.plan_file;
  options.save_plan_file = arguments.save_plan_file;
  options.save_problem_file = arguments.save_problem_file;
  options.save_schedule_file = arguments.save_schedule_file;
  options.wants_picture = !arguments.html_file.empty();
  options.callbacks.on_cancelled = [&reporter](const Error& stop) {
    reporter.clear();
    leave_interrupted(stop);
  };
  if (arguments.has_levers) {
    const std::vector<LeverPlan> plans = plan_levers(arguments.config, options);
    reporter.clear();
    print(arguments.is_json ? to_json(plans) + "\n"
                            : to_text(plans, resolve_memory(arguments.config.memory)),
          arguments.is_json);
    return kDone;
  }
  const PlanReport report = plan_run(arguments.config, options);
  reporter.clear();
  if (!arguments.html_file.empty()) write_text(arguments.html_file, report.to_html());
  print(arguments.is_json ? report.to_json() + "\n" : report.to_text(), arguments.is_json);
  return kDone;
}

}  // namespace snug::cli
