// SPDX-License-Identifier: Apache-2.0
// The tokenizers that no tokenizer.json describes, as such a file would: BERT's over a vocab.txt,
// ALBERT's over a sentencepiece model, and those that are learned.
#pragma once

#include <string>

#include "snug/tokenizer_kind.h"
#include "text/bert_normalizer.h"
#include "text/tokenizer_spec.h"

namespace snug::text {

/// From texts to words: two values of tokenizer.json.
struct WordSteps {
  std::string normalizer, pre_tokenizer;
};
/// `of_wordpiece`: the normaliser of BERT's; the other kinds keep the text as it is, but for
/// Unigram's compatible forms and white space.
[[nodiscard]] WordSteps word_steps(TokenizerKind kind, const BertNormalizerOptions& of_wordpiece);

/// The pipeline and the model of a kind over the vocabulary and the roles that are there:
/// [CLS] text [SEP] pair [SEP], with types 0 and 1.
void set_pipeline(TokenizerSpec& spec, TokenizerKind kind,
                  const BertNormalizerOptions& of_wordpiece);

struct AlbertNormalizerOptions {
  bool lowercase = true;
  bool keep_accents = false;
  std::string_view charsmap;  ///< of the sentencepiece model; empty: none
};
/// ALBERT's pipeline and its Unigram model, over pieces and roles that are there.
void set_albert_pipeline(TokenizerSpec& spec, const AlbertNormalizerOptions& options);

}  // namespace snug::text
