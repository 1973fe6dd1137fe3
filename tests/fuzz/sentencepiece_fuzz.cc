// SPDX-License-Identifier: Apache-2.0
// A sentencepiece model under its own normalisation and under ALBERT's, whose own bytes are the
// text to encode with it.
#include <string>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace snug::fuzz {

namespace {

void encode_with(const char* name, std::string_view input) {
  const auto tokenizer = text::Tokenizer::load(write_file(name, input));
  const std::string_view text = input.substr(0, first_invalid_utf8(input).value_or(input.size()));
  const text::Encoding encoding = tokenizer.encode(text, "a [MASK] b", 64);
  for (const int32_t id : encoding.ids)
    require(id >= 0 && id < tokenizer.vocab_size(), "an id is a token's");
}

}  // namespace

void read_sentencepiece(std::string_view input) {
  write_file("config.json", R"({"model_type": "albert"})");
  for (const char* name : {"spm.model", "spiece.model"})
    accept([name](std::string_view bytes) { encode_with(name, bytes); }, input);
}

}  // namespace snug::fuzz
