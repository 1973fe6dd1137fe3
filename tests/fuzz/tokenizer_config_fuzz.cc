// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json, special_tokens_map.json and added_tokens.json, with NUL between them,
// beside a small vocabulary. What they make of it is saved and read back.
#include <filesystem>
#include <string>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace snug::fuzz {
namespace {

/// An empty part is a file that is not there.
void write_or_remove(const std::string& name, std::string_view bytes) {
  const std::string file = write_file(name, bytes);
  if (bytes.empty()) std::filesystem::remove(file);
}

}  // namespace

void read_tokenizer_config(std::string_view input) {
  const auto parts = parts_of(input, 3);
  const std::filesystem::path file =
      write_file("small/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n");
  write_or_remove("small/tokenizer_config.json", parts[0]);
  write_or_remove("small/special_tokens_map.json", parts[1]);
  write_or_remove("small/added_tokens.json", parts[2]);
  const auto tokenizer = text::Tokenizer::load(file);
  require(tokenizer.token(6) == "##b", "the vocabulary is that of vocab.txt");
  const std::filesystem::path saved = file.parent_path() / "saved";
  tokenizer.save(saved);
  require(text::Tokenizer::load(saved).fingerprint() == tokenizer.fingerprint(),
          "a saved tokenizer is the same");
}

}  // namespace snug::fuzz
