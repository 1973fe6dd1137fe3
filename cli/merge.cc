// SPDX-License-Identifier: Apache-2.0
// snug merge: adapters written into the weights of their model.
#include "common.h"
#include "words.h"

namespace snug::cli {

int merge_verb(const std::vector<std::string>& words) {
  CLI::App app(
      "Writes a model with its adapters as one model folder, W + (alpha / r) B A in place "
      "of W (docs/lora.md).",
      "snug merge");
  std::string model;
  std::string adapter;
  std::string output;
  app.add_option("--model", model, "The folder of the base model")->required();
  app.add_option("--adapter", adapter, "The folder of the adapters: best/ or last/, or PEFT's")
      ->required();
  app.add_option("--output", output, "The folder to write")->required();
  if (!parse_words(app, words)) return kDone;
  ProgressReporter reporter;
  merge_adapters(model, adapter, output, run_options(reporter));
  return kDone;
}

}  // namespace snug::cli
