// SPDX-License-Identifier: Apache-2.0
// snug tokenize: lines of text to lists of ids.
#include "snug/tokenize.h"

#include <cstdio>
#include <iostream>

#include "common.h"
#include "snug/error.h"
#include "words.h"

namespace snug::cli {

int tokenize_verb(const std::vector<std::string>& words) {
  CLI::App app(
      "Reads lines of text and prints a JSON list of ids for each: what the model is fed, with the "
      "tokens around a text, uncut.",
      "snug tokenize");
  std::string model;
  app.add_option("--model", model, "A folder with a tokenizer, or one of its files (docs/files.md)")
      ->required();
  if (!parse_words(app, words)) return kDone;
  TextEncoder encoder(model);
  std::string line;
  std::string out;
  while (!was_interrupted() && std::getline(std::cin, line)) {
    out = "[";
    for (const int32_t id : encoder.encode(line)) {
      if (out.size() > 1) out += ", ";
      out += std::to_string(id);
    }
    out += "]\n";
    std::cout << out;
  }
  if (was_interrupted())
    throw Error(ErrorCode::cancelled, "standard input", "stopped on request", "");
  if (std::ferror(stdin) != 0)  // a folder, or a disk that fails
    throw Error(ErrorCode::io, "standard input", "cannot be read to its end",
                "give a file or a pipe of lines");
  return kDone;
}

}  // namespace snug::cli
