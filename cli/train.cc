// SPDX-License-Identifier: Apache-2.0
// snug train: plans, prints the plan, trains with a progress bar or plain lines.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "common.h"
#include "terminal.h"

namespace snug::cli {
namespace {

// On a terminal that is too narrow the last fields are left out; metrics.jsonl has them all.
// `unit`: what tokens_per_second counts.
std::string text_of(const UpdateLog& log, const std::string& unit, int columns) {
  const auto field = [](const char* format, auto... values) {
    char text[96];
    std::snprintf(text, sizeof text, format, values...);
    return std::string(text);
  };
  constexpr double kMiB = 1048576.0;
  std::vector<std::string> fields = {
      field("step %lld/%lld", static_cast<long long>(log.step),
            static_cast<long long>(log.total_steps)),
      field("epoch %.2f", log.epoch),
      field("loss %.4f", log.loss),
      field("lr %.3g", log.learning_rate),
      field("norm %.3g", log.grad_norm),
      field("%.0f %s/s", log.tokens_per_second, unit.c_str()),
      field("rss %.1f MiB", static_cast<double>(log.rss_bytes) / kMiB),
      field("arena %.1f MiB", static_cast<double>(log.arena_peak_bytes) / kMiB)};
  if (log.skipped_updates > 0)
    fields.push_back(field("skipped %lld", static_cast<long long>(log.skipped_updates)));
  return fitted(fields, columns);
}

std::string text_of(int64_t step, const EvalMetrics& metrics) {
  char text[96];
  std::snprintf(text, sizeof text, "evaluation after step %lld: loss %.4f",
                static_cast<long long>(step), metrics.loss);
  std::string line = text;
  for (const MetricValue& each : metrics.values) line += "  " + each.text;
  return line + "  (" + std::to_string(metrics.rows) + " rows)";
}

std::string text_of(const TrainSummary& summary, const std::string& output_dir) {
  char text[256];
  std::snprintf(text, sizeof text, "%s after %lld updates in %.0f s: ",
                summary.status == RunStatus::early_stopped ? "stopped early" : "done",
                static_cast<long long>(summary.steps), summary.seconds);
  std::string lines = text + output_dir + "\n";
  if (summary.final_metrics.rows > 0) {
    for (const MetricValue& each : summary.final_metrics.values) lines += each.text + ", ";
    std::snprintf(text, sizeof text, "loss %.4f on %lld rows\n", summary.final_metrics.loss,
                  static_cast<long long>(summary.final_metrics.rows));
    lines += text;
  }
  std::snprintf(
      text, sizeof text,
      "arena: planned %lld, measured %lld bytes; process: planned %lld, measured %lld bytes\n",
      static_cast<long long>(summary.planned_arena_bytes),
      static_cast<long long>(summary.measured_arena_bytes),
      static_cast<long long>(summary.planned_peak_bytes),
      static_cast<long long>(summary.measured_peak_rss_bytes));
  return lines + text;
}

}  // namespace

int train_verb(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!read_arguments("train", "Trains a model within a budget of bytes.", words, arguments))
    return kDone;
  ProgressReporter reporter;
  RunOptions options = run_options(reporter);
  options.plan_file = arguments.plan_file;
  options.save_plan_file = arguments.save_plan_file;
  std::string unit = "tokens";  // what goes by in a second
  options.callbacks.on_plan = [&](const PlanReport& report) {
    reporter.clear();
    if (!report.row.empty()) unit = report.row.substr(0, report.row.find(' ')) + "s";
    if (arguments.is_json) return;
    print(report.to_text());
    std::cout.flush();
  };
  options.callbacks.on_update = [&](const UpdateLog& log) {
    reporter.line(text_of(log, unit, terminal_columns(STDERR_FILENO)));
    char note[48];
    std::snprintf(note, sizeof note, "loss %.4f", log.loss);
    reporter.set_note(note);
  };
  options.callbacks.on_evaluation = [&](int64_t step, const EvalMetrics& metrics) {
    reporter.line(text_of(step, metrics));
  };
  const TrainSummary summary = train_model(arguments.config, options);
  reporter.clear();
  if (summary.status == RunStatus::interrupted) {
    reporter.line("interrupted after update " + std::to_string(summary.steps) +
                  "; the checkpoint is in " + arguments.config.output_dir +
                  "/last, --resume goes on from it");
    return kInterrupted;
  }
  if (arguments.is_json) {
    std::cout << summary.to_json() << "\n";
  } else {
    print(text_of(summary, arguments.config.output_dir));
  }
  return kDone;
}

}  // namespace snug::cli
