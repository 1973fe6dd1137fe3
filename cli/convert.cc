// SPDX-License-Identifier: Apache-2.0
// snug convert: pytorch_model.bin as safetensors.
#include "common.h"
#include "words.h"

namespace snug::cli {

int convert_verb(const std::vector<std::string>& words) {
  CLI::App app(
      "Writes the tensors of a file of torch.save as one file of safetensors, the same names, "
      "types "
      "and bits. Nothing of the file is run (docs/files.md).",
      "snug convert");
  std::string file;
  std::string output;
  app.add_option("file", file, "pytorch_model.bin, its index of shards, or the folder of either")
      ->required();
  app.add_option("--output", output, "The file to write")->required();
  if (!parse_words(app, words)) return kDone;
  ProgressReporter reporter;
  convert_weights(file, output, run_options(reporter));
  return kDone;
}

}  // namespace snug::cli
