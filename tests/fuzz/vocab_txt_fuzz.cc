// SPDX-License-Identifier: Apache-2.0
// A vocab.txt, and a text to encode with it behind the first NUL.
#include <filesystem>
#include <string>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace snug::fuzz {

void read_vocab_txt(std::string_view input) {
  const auto parts = parts_of(input, 2);
  const auto tokenizer = text::Tokenizer::load(write_file("vocab.txt", parts[0]));
  const text::Encoding encoding = tokenizer.encode(parts[1], parts[1], 16);
  require(encoding.ids.size() <= 16, "a row is cut");
  for (const int32_t id : encoding.ids)
    require(id >= 0 && id < tokenizer.vocab_size(), "an id is a token's");
}

}  // namespace snug::fuzz
