// SPDX-License-Identifier: Apache-2.0
// Learns a vocabulary from the user's own text, in bounded memory: words are counted as the
// tokenizer will see them, then one of sentencepiece's trainers makes pieces of them. WordPiece and
// byte-level BPE merge pairs; Unigram begins with what is frequent and drops what is needed least.
// The result depends on the rows and their order, on kind, vocab_size, seed and the other options;
// on nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "snug/tokenizer_kind.h"
#include "text/bert_normalizer.h"
#include "text/bpe_model.h"

namespace snug::text {

/// Upper bound of the memory that a learner takes from its construction to the end of learn(),
/// whatever the text is.
inline constexpr int64_t kVocabularyLearnerBytes = int64_t{42} << 20;

struct VocabularyOptions {
  TokenizerKind kind = TokenizerKind::wordpiece;
  int64_t vocab_size = 30522;  ///< an upper limit: a small text has fewer pieces
  uint64_t seed = 42;
  bool lowercase =
      true;  ///< of WordPiece: lower case and without accents, as bert-base-uncased; else as it is
  int64_t sample_bytes = int64_t{64} << 20;  ///< text counted before the sampling rate halves
};

/// [PAD] [UNK] [CLS] [SEP] [MASK], the characters, and the longer pieces from frequent to rare; of
/// Unigram, all pieces from frequent to rare.
struct LearnedVocabulary {
  TokenizerKind kind = TokenizerKind::wordpiece;
  std::vector<std::string> tokens;
  std::vector<double> scores;        ///< of Unigram
  std::vector<BpeMerge> merges;      ///< of BPE
  BertNormalizerOptions normalizer;  ///< of WordPiece
};

/// Design. Rows are counted as they come until `sample_bytes` of text; then the counts are halved
/// and from there on every second row is skipped (drawn by a hash of seed and row number), and so
/// on: time grows with the logarithm of the rows, apart from reading them, and early and late rows
/// weigh the same. Characters: the most frequent ones, as long as their forms (of WordPiece "a" and
/// "##a"; one form for punctuation and ideographs, which are always words of their own) take at
/// most three quarters of the vocabulary. For texts that are not mostly ideographs these are all
/// characters, so that [UNK] never comes from the text the vocabulary was learned from. Those of
/// BPE are the 256 bytes.
class VocabularyLearner {
 public:
  /// Throws Error{bad_config} for a vocab_size out of range.
  explicit VocabularyLearner(const VocabularyOptions& options);
  ~VocabularyLearner();
  VocabularyLearner(VocabularyLearner&&) noexcept;
  VocabularyLearner& operator=(VocabularyLearner&&) noexcept;

  /// Adds one row. Throws Error{bad_data} where it is not UTF-8.
  void add(std::string_view text);
  /// Ends the learner: its memory is freed. Throws Error{bad_data} where no row had a character.
  [[nodiscard]] LearnedVocabulary learn();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace snug::text
