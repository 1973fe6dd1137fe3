// SPDX-License-Identifier: Apache-2.0
// Asks for the plan of a BERT before training it, trains it with progress, saves it, and labels
// rows with it.
//   ./bert train.jsonl output_folder
#include <snug/snug.h>

#include <atomic>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bert train.jsonl output_folder\n");
    return 1;
  }
  snug::RunConfig config;
  config.model = "bert-tiny";
  config.vocab_size = 2000;
  config.train_file = argv[1];
  config.output_dir = argv[2];
  config.max_seq_length = 32;
  config.train_batch_size = 16;
  config.max_steps = 40;
  config.learning_rate = 1e-3;
  config.logging_steps = 10;
  config.memory = snug::parse_memory("64MiB");

  std::atomic<bool> stop{false};
  snug::RunOptions options;
  options.cancel = &stop;
  const snug::PlanReport plan = snug::plan_run(config, options);
  std::printf("%lld micro-batches of %lld, %lld bytes at most, %.1f ms an update\n",
              static_cast<long long>(plan.accumulation_steps),
              static_cast<long long>(plan.micro_batch),
              static_cast<long long>(plan.planned_peak_bytes), 1e3 * plan.step_seconds);
  options.callbacks.on_update = [&](const snug::UpdateLog& log) {
    std::printf("update %lld: loss %.3f\n", static_cast<long long>(log.step), log.loss);
    if (log.step == 20 && !config.resume) stop = true;
  };
  (void)snug::train_model(config, options);  // stops after update 20, with a checkpoint

  stop = false;
  config.resume = true;
  const snug::TrainSummary summary = snug::train_model(config, options);
  std::printf("finished after %lld updates, weights %s\n", static_cast<long long>(summary.steps),
              summary.weights_sha256.c_str());

  config.test_file = config.train_file;
  int shown = 0;
  snug::predict_rows(config, [&](const snug::Prediction& row) {
    if (shown++ < 3)
      std::printf("row %lld: %s\n", static_cast<long long>(row.row), row.label.c_str());
  });
  return summary.status == snug::RunStatus::completed && shown > 0 ? 0 : 1;
} catch (const snug::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
