// SPDX-License-Identifier: Apache-2.0
// WordPiece tokenizer with BERT's normalisation, token for token equal to Hugging Face's
// `tokenizers`. Immutable after construction: every const method may run on any number of threads,
// each with its own scratch. It does not pad and makes no batches (src/data does).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bert_normalizer.h"
#include "text/wordpiece_spec.h"

namespace snug {

/// One text, or a pair, as ids with the tokens that BERT expects around them.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  ///< 0 up to the first [SEP], then 1; as long as ids
  bool truncated = false;
  int64_t untruncated_length = 0;  ///< number of ids, [CLS] and [SEP] included, without a limit
};

/// Working memory of an encode call. Reused, it makes encoding free of heap allocations.
struct EncodeScratch {
  struct Boundary {
    uint64_t hash;
    size_t end;
  };
  std::string normalized;
  BertNormalizer::Marks marks;
  std::vector<Boundary> boundaries;
  std::vector<int32_t> first, second;
};

class WordPieceTokenizer {
 public:
  /// Reads a vocab.txt, a tokenizer.json, or a folder with one of them (tokenizer.json is
  /// preferred). The folder's tokenizer_config.json gives the roles of tokens and, for vocab.txt,
  /// the options of the normaliser. Throws Error{io} for what cannot be read, {bad_data} for broken
  /// files, {unsupported} for other kinds of tokenizer.
  [[nodiscard]] static WordPieceTokenizer load(const std::filesystem::path& path);
  /// Makes a tokenizer from tokens in the order of their ids, e.g. those VocabularyLearner returns.
  [[nodiscard]] static WordPieceTokenizer from_tokens(const std::vector<std::string>& tokens,
                                                      const BertNormalizerOptions& options);

  /// Appends the ids of a text, without [CLS] and [SEP]. Throws Error{bad_data} at the first byte
  /// that is not UTF-8.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;
  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeScratch& scratch) const;

  /// [CLS] text [SEP], or [CLS] text [SEP] pair [SEP], cut to max_length ids, the longer text first
  /// as in `tokenizers`. Throws Error{bad_config} where max_length has no room for [CLS] and [SEP].
  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                int64_t max_length) const;
  /// As above, into `encoding`, whose memory is reused.
  void encode(std::string_view text, std::optional<std::string_view> pair, int64_t max_length,
              Encoding& encoding, EncodeScratch& scratch) const;

  /// [CLS] words [SEP], each word as a text of its own, cut to max_length ids: what `transformers`
  /// makes with is_split_into_words. `first_tokens` is each word's place in the ids; -1 where it
  /// was cut off or is no token at all.
  void encode_words(std::span<const std::string> words, int64_t max_length, Encoding& encoding,
                    std::vector<int32_t>& first_tokens, EncodeScratch& scratch) const;

  [[nodiscard]] int32_t pad_id() const { return pad_; }
  [[nodiscard]] int32_t unk_id() const { return unk_; }
  [[nodiscard]] int32_t cls_id() const { return cls_; }
  [[nodiscard]] int32_t sep_id() const { return sep_; }
  /// -1 where the vocabulary has no mask token (classification needs none).
  [[nodiscard]] int32_t mask_id() const { return mask_; }
  /// Number of ids, added tokens included.
  [[nodiscard]] int64_t vocab_size() const { return size_; }
  /// Text of a token; Error{bad_data} for an id out of range.
  [[nodiscard]] std::string_view token(int64_t id) const;
  [[nodiscard]] const BertNormalizerOptions& normalizer_options() const {
    return normalizer_.options();
  }

  /// Writes vocab.txt, tokenizer.json and tokenizer_config.json; makes the folder where it is
  /// missing. `transformers` and load() read them back as the same tokenizer. model_max_length is
  /// written where it is above 0; `transformers` makes token type ids unless told that the model
  /// has none.
  void save(const std::filesystem::path& folder, int64_t model_max_length = 0,
            bool has_type_ids = true) const;
  /// The model_max_length of a folder's tokenizer_config.json; none where the file does not say it
  /// (the huge number of transformers says nothing).
  [[nodiscard]] static std::optional<int64_t> saved_max_length(const std::filesystem::path& folder);
  /// Bytes of all tokens of the vocabulary.
  [[nodiscard]] int64_t token_bytes() const { return spec_.vocabulary.text_bytes(); }
  /// Heap bytes that this tokenizer holds, without the allocator's rounding.
  [[nodiscard]] int64_t approximate_bytes() const;

 private:
  explicit WordPieceTokenizer(WordPieceSpec spec);
  void append(std::string_view text, std::vector<int32_t>& ids, EncodeScratch& scratch) const;
  void append_words(std::string_view normalized, std::vector<int32_t>& ids,
                    EncodeScratch& scratch) const;
  void append_pieces(std::string_view word, std::vector<int32_t>& ids,
                     EncodeScratch& scratch) const;

  WordPieceSpec spec_;
  BertNormalizer normalizer_;
  AddedTokenMatcher raw_matcher_;         ///< in the text as it came
  AddedTokenMatcher normalized_matcher_;  ///< in the normalised text
  uint64_t prefix_hash_ = 0;
  int64_t size_ = 0;
  int32_t pad_ = -1, unk_ = -1, cls_ = -1, sep_ = -1, mask_ = -1;
};

}  // namespace snug
