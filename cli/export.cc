// SPDX-License-Identifier: Apache-2.0
// snug export: a model's folder as transformers reads it.
#include "common.h"
#include "words.h"

namespace snug::cli {

int export_verb(const std::vector<std::string>& words) {
  CLI::App app(
      "Writes a model's folder anew for transformers: one model.safetensors, config.json and the "
      "files of the tokenizer (docs/files.md).",
      "snug export");
  std::string model;
  std::string output;
  std::string dtype;
  app.add_option("--model", model, "The folder of the model")->required();
  app.add_option("--output", output, "The folder to write")->required();
  app.add_option("--dtype", dtype,
                 "float32, bfloat16 or float16; weights stay as they are where it is not given");
  if (!parse_words(app, words)) return kDone;
  ProgressReporter reporter;
  export_model(model, output, dtype, run_options(reporter));
  return kDone;
}

}  // namespace snug::cli
