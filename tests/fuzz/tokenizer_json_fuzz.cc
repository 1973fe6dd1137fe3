// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, and a text to encode with it behind the first NUL. The vocabulary may be
// written as "VOCAB".
#include <filesystem>
#include <string>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace snug::fuzz {

void read_tokenizer_json(std::string_view input) {
  const auto parts = parts_of(input, 2);
  const std::string json =
      replace(std::string(parts[0]), R"("VOCAB")",
              R"({"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"[MASK]":4,"a":5,"##b":6})");
  const auto tokenizer = text::Tokenizer::load(write_file("tokenizer.json", json));
  const text::Encoding encoding = tokenizer.encode(parts[1], std::nullopt, 16);
  for (const int32_t id : encoding.ids)
    require(id >= 0 && id < tokenizer.vocab_size(), "an id is a token's");
  const std::filesystem::path folder =
      std::filesystem::path(write_file("again", "")).parent_path() / "saved";
  std::filesystem::create_directories(folder);
  tokenizer.save(folder);
  const text::Encoding again = text::Tokenizer::load(folder).encode(parts[1], std::nullopt, 16);
  require(again.ids == encoding.ids, "a saved tokenizer is the same");
}

}  // namespace snug::fuzz
