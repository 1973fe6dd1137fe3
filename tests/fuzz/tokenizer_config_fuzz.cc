// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json beside a small vocabulary.
#include <string>

#include "fuzz/fuzz.h"
#include "text/tokenizer_spec.h"

namespace snug::fuzz {

void read_tokenizer_config(std::string_view input) {
  const TokenizerConfig config =
      snug::read_tokenizer_config(write_file("tokenizer_config.json", input));
  const TokenizerSpec spec = snug::read_vocab_txt(
      write_file("small_vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"), config);
  require(spec.vocabulary.size() == 7, "the vocabulary is that of vocab.txt");
}

}  // namespace snug::fuzz
