// SPDX-License-Identifier: Apache-2.0
// snug train: plans, prints the plan, trains with a progress bar or plain lines.
#include <cstdio>
#include <iostream>

#include "common.h"

namespace snug::cli {
namespace {

// `unit`: what tokens_per_second counts.
std::string text_of(const UpdateLog& log, const char* unit) {
  char text[256];
  std::snprintf(text, sizeof text,
                "step %lld/%lld  epoch %.2f  loss %.4f  lr %.3g  norm %.3g  %.0f %s/s  arena "
                "%.1f MiB  rss %.1f MiB",
                static_cast<long long>(log.step), static_cast<long long>(log.total_steps),
                log.epoch, log.loss, log.learning_rate, log.grad_norm, log.tokens_per_second, unit,
                static_cast<double>(log.arena_peak_bytes) / 1048576.0,
                static_cast<double>(log.rss_bytes) / 1048576.0);
  return text;
}

std::string text_of(int64_t step, const EvalMetrics& metrics) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      "evaluation after step %lld: loss %.4f  accuracy %.2f %%  macro F1 %.4f  (%lld rows)",
      static_cast<long long>(step), metrics.loss, 100 * metrics.accuracy, metrics.macro_f1,
      static_cast<long long>(metrics.rows));
  return text;
}

void print_summary(const TrainSummary& summary, const std::string& output_dir) {
  std::printf("%s after %lld updates in %.0f s: %s\n",
              summary.status == RunStatus::early_stopped ? "stopped early" : "done",
              static_cast<long long>(summary.steps), summary.seconds, output_dir.c_str());
  if (summary.final_metrics.rows > 0) {
    std::printf("accuracy %.2f %%, macro F1 %.4f, loss %.4f on %lld rows\n",
                100 * summary.final_metrics.accuracy, summary.final_metrics.macro_f1,
                summary.final_metrics.loss, static_cast<long long>(summary.final_metrics.rows));
  }
  std::printf(
      "arena: planned %lld, measured %lld bytes; process: planned %lld, measured %lld bytes\n",
      static_cast<long long>(summary.planned_arena_bytes),
      static_cast<long long>(summary.measured_arena_bytes),
      static_cast<long long>(summary.planned_peak_bytes),
      static_cast<long long>(summary.measured_peak_rss_bytes));
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
  const char* unit = "tokens";
  options.callbacks.on_plan = [&](const PlanReport& report) {
    reporter.clear();
    if (report.image_size > 0) unit = "images";
    if (!arguments.is_json) std::cout << report.to_text() << std::flush;
  };
  options.callbacks.on_update = [&](const UpdateLog& log) {
    reporter.line(text_of(log, unit));
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
    std::cerr << "interrupted after update " << summary.steps << "; the checkpoint is in "
              << arguments.config.output_dir << "/last, --resume goes on from it\n";
    return kInterrupted;
  }
  if (arguments.is_json) {
    std::cout << summary.to_json() << "\n";
  } else {
    print_summary(summary, arguments.config.output_dir);
  }
  return kDone;
}

}  // namespace snug::cli
