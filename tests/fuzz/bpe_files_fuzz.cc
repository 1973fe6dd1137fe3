// SPDX-License-Identifier: Apache-2.0
// A vocab.json, a merges.txt, and a text to encode with them, with NUL between them.
#include <string>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace snug::fuzz {

void read_bpe_files(std::string_view input) {
  const auto parts = parts_of(input, 3);
  const std::string file = write_file("vocab.json", parts[0]);
  write_file("merges.txt", parts[1]);
  const auto tokenizer = text::Tokenizer::load(file);
  const text::Encoding encoding = tokenizer.encode(parts[2], parts[2], 16);
  require(encoding.ids.size() <= 16, "a row is cut");
  for (const int32_t id : encoding.ids)
    require(id >= 0 && id < tokenizer.vocab_size(), "an id is a token's");
}

}  // namespace snug::fuzz
