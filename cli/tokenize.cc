// SPDX-License-Identifier: Apache-2.0
// snug tokenize: lines of text to lists of ids.
#include "snug/tokenize.h"

#include <cstdio>
#include <iostream>

#include "common.h"
#include "snug/error.h"
#include "words.h"

namespace snug::cli {

namespace {

void print_ids(const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (const int32_t id : ids) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(id);
  }
  std::cout << out << "]\n";
}

void tokenize_lines(const std::string& model) {
  TextEncoder encoder(model);
  std::string line;
  while (!was_interrupted() && std::getline(std::cin, line)) print_ids(encoder.encode(line));
  if (was_interrupted())
    throw Error(ErrorCode::cancelled, "standard input", "stopped on request", "");
  if (std::ferror(stdin) != 0)  // a folder, or a disk that fails
    throw Error(ErrorCode::io, "standard input", "cannot be read to its end",
                "give a file or a pipe of lines");
}

}  // namespace

int tokenize_verb(const std::vector<std::string>& words) {
  CLI::App app(
      "Reads lines of text, or rows of files, and prints a JSON list of ids for each: what the "
      "model is fed, with the tokens around a text, uncut.",
      "snug tokenize");
  RunConfig config;
  app.add_option("--model", config.model,
                 "A folder with a tokenizer, or one of its files (docs/files.md)")
      ->required();
  app.add_option("--test_file", config.test_file,
                 "Rows in place of lines: files, patterns or - (docs/data.md)");
  app.add_option("--text_column", config.text_column, "Column or field of the text");
  app.add_option("--text_pair_column", config.text_pair_column, "Column of the second text");
  if (!parse_words(app, words)) return kDone;
  if (config.test_file.empty()) {
    tokenize_lines(config.model);
    return kDone;
  }
  ProgressReporter reporter;
  tokenize_rows(config, print_ids, run_options(reporter));
  return kDone;
}

}  // namespace snug::cli
