// SPDX-License-Identifier: Apache-2.0
// Trains an MLP inside memory that this program owns, stops it after a few updates, and resumes it.
//   ./mlp train.jsonl output_folder
#include <snug/snug.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: mlp train.jsonl output_folder\n");
    return 1;
  }
  snug::RunConfig config;
  config.model = "mlp";
  config.hidden_sizes = {64, 64};
  config.vocab_size = 2000;
  config.train_file = argv[1];
  config.output_dir = argv[2];
  config.max_seq_length = 32;
  config.train_batch_size = 16;
  config.max_steps = 60;
  config.learning_rate = 3e-3;
  config.threads = 1;
  config.memory = snug::parse_memory(
      "24MiB");  // weights, states and arena; this program's own bytes are its own affair

  // The block that everything lives in belongs to this program.
  const std::size_t bytes = 24 << 20;
  const std::unique_ptr<std::byte, decltype(&std::free)> block(
      static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free);
  std::atomic<bool> stop{false};
  snug::RunOptions options;
  options.cancel = &stop;
  options.memory = {block.get(), bytes};
  options.callbacks.on_progress = [&](const snug::Progress& progress) {
    if (progress.stage == "training" && progress.done == 20)
      stop = true;  // as a "stop" button would
  };
  snug::TrainSummary summary = snug::train_model(config, options);
  std::printf("%s after %lld updates\n",
              summary.status == snug::RunStatus::interrupted ? "stopped" : "finished",
              static_cast<long long>(summary.steps));

  stop = false;
  options.callbacks.on_progress = {};
  config.resume = true;
  summary = snug::train_model(config, options);
  std::printf(
      "finished after %lld updates: accuracy %.3f, arena planned %lld, measured %lld bytes\n",
      static_cast<long long>(summary.steps), summary.final_metrics.find("accuracy").value(),
      static_cast<long long>(summary.planned_arena_bytes),
      static_cast<long long>(summary.measured_arena_bytes));
  return summary.status == snug::RunStatus::completed ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
