// SPDX-License-Identifier: Apache-2.0
// snug train: plans, prints the plan, trains with a progress bar or plain lines.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "common.h"
#include "terminal.h"

namespace snug::cli {
namespace {

// On a terminal that is too narrow the last fields are left out; metrics.jsonl has them all.
// `unit`: what tokens_per_second counts.
std::string text_of(const UpdateLog& log, const std::string& unit, int columns) {
  constexpr double kMiB = 1048576.0;
  std::vector<std::string> fields = {
      fmt::format("step {}/{}", log.step, log.total_steps),
      fmt::format("epoch {:.2f}", log.epoch),
      fmt::format("loss {:.4f}", log.loss),
      fmt::format("lr {:.3g}", log.learning_rate),
      fmt::format("norm {:.3g}", log.grad_norm),
      fmt::format("{:.0f} {}/s", log.tokens_per_second, unit),
      fmt::format("rss {:.1f} MiB", static_cast<double>(log.rss_bytes) / kMiB),
      fmt::format("arena {:.1f} MiB", static_cast<double>(log.arena_peak_bytes) / kMiB)};
  if (log.skipped_updates > 0) fields.push_back(fmt::format("skipped {}", log.skipped_updates));
  return fitted(fields, columns);
}

std::string text_of(int64_t step, const EvalMetrics& metrics) {
  std::string line = fmt::format("evaluation after step {}: loss {:.4f}", step, metrics.loss);
  for (const MetricValue& each : metrics.values) line += "  " + each.text;
  return line + "  (" + std::to_string(metrics.rows) + " rows)";
}

std::string text_of(const TrainSummary& summary, const std::string& output_dir) {
  std::string lines =
      fmt::format("{} after {} updates in {:.0f} s: {}\n",
                  summary.status == RunStatus::early_stopped ? "stopped early" : "done",
                  summary.steps, summary.seconds, output_dir);
  if (summary.final_metrics.rows > 0) {
    for (const MetricValue& each : summary.final_metrics.values) lines += each.text + ", ";
    lines += fmt::format("loss {:.4f} on {} rows\n", summary.final_metrics.loss,
                         summary.final_metrics.rows);
  }
  return lines +
         fmt::format(
             "arena: planned {}, measured {} bytes; process: planned {}, measured {} bytes\n",
             summary.planned_arena_bytes, summary.measured_arena_bytes, summary.planned_peak_bytes,
             summary.measured_peak_rss_bytes);
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
    reporter.set_note(fmt::format("loss {:.4f}", log.loss));
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
