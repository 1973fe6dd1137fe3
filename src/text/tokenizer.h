// SPDX-License-Identifier: Apache-2.0
// A tokenizer as its files say it, token for token equal to Hugging Face's `tokenizers`: added
// tokens, normalizer, pre-tokenizer, model (WordPiece, BPE, Unigram), template. Immutable after
// construction: every const method may run on any number of threads, each with its own scratch. It
// does not pad and makes no batches (src/data does).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bert_normalizer.h"
#include "text/pipeline.h"
#include "text/text_limits.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace snug::text {

/// One text, or a pair, as ids with the tokens that the model expects around them.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  ///< as the template says, 0 or 1; as long as ids
  bool truncated = false;
  int64_t untruncated_length =
      0;  ///< number of ids, those around the texts included, without a limit
};

/// Where a text that is too long is cut.
enum class Truncation : uint8_t {
  end,    ///< its first tokens stay
  begin,  ///< its last tokens stay: truncation_side left of transformers
  middle  ///< half of what there is room for is its first tokens (one more where that is odd), half
          ///< its last
};

/// Working memory of an encode call. Reused, it makes encoding free of heap allocations.
struct EncodeScratch {
  NormalizeScratch normalized;
  std::vector<StepBuffers> buffers;
  WordScratch word;
  WordCache cache;
  std::vector<int32_t> first, second;
  std::vector<int32_t> word_begins;  ///< of begin_windows: places in `first`; -1: no token at all
};

class Tokenizer {
 public:
  /// Reads a tokenizer.json, a vocab.txt, or a folder with one of them (tokenizer.json is
  /// preferred). The folder's tokenizer_config.json gives the roles of tokens and, for vocab.txt,
  /// the options of the normaliser. Throws Error{io} for what cannot be read, {bad_data} for broken
  /// files, {unsupported} for what is not understood.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& path);
  /// True where load() finds a tokenizer in the folder.
  [[nodiscard]] static bool is_in(const std::filesystem::path& folder);
  /// The files of a folder that are or begin a tokenizer, first the one that load() reads.
  [[nodiscard]] static std::vector<std::string> files_in(const std::filesystem::path& folder);
  /// BERT's tokenizer over tokens in the order of their ids.
  [[nodiscard]] static Tokenizer from_tokens(const std::vector<std::string>& tokens,
                                             const BertNormalizerOptions& options);
  /// What VocabularyLearner returns.
  [[nodiscard]] static Tokenizer learned(LearnedVocabulary vocabulary);

  /// Appends the ids of a text, without tokens around it. Throws Error{bad_data} at the first byte
  /// that is not UTF-8.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;
  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeScratch& scratch) const;

  /// The text, or the pair, with the tokens around it (BERT's: [CLS] text [SEP] pair [SEP]), cut to
  /// max_length ids, the longer text first as in `tokenizers`. Throws Error{bad_config} where
  /// max_length has no room for the tokens around a text.
  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                int64_t max_length) const;
  /// As above, into `encoding`, whose memory is reused.
  void encode(std::string_view text, std::optional<std::string_view> pair, int64_t max_length,
              Encoding& encoding, EncodeScratch& scratch, Truncation cut = Truncation::end) const;

  /// Words with the tokens around a text, each word as a text of its own, cut to max_length ids:
  /// what `transformers` makes with is_split_into_words. `first_tokens` is each word's place in the
  /// ids; -1 where it was cut off or is no token at all.
  void encode_words(std::span<const std::string> words, int64_t max_length, Encoding& encoding,
                    std::vector<int32_t>& first_tokens, EncodeScratch& scratch,
                    Truncation cut = Truncation::end) const;

  /// Windows of at most max_length ids over a text, or over words, that share `stride` tokens with
  /// the one before: as `tokenizers` makes overflowing pieces. Tokenises into `scratch`; returns
  /// how many there are, one at least. Throws Error{bad_config} where `stride` leaves nothing new
  /// in a window.
  [[nodiscard]] int64_t begin_windows(std::string_view text, int64_t max_length, int64_t stride,
                                      EncodeScratch& scratch) const;
  [[nodiscard]] int64_t begin_windows(std::span<const std::string> words, int64_t max_length,
                                      int64_t stride, EncodeScratch& scratch) const;
  /// One of them. Of words each belongs to one window, where the most tokens stand on its shorter
  /// side (the first of equal ones), and is -1 in the others.
  void window(int64_t index, int64_t max_length, int64_t stride, const EncodeScratch& scratch,
              Encoding& encoding, std::vector<int32_t>* first_tokens) const;

  [[nodiscard]] int32_t pad_id() const { return pad_; }
  /// -1 where there is none: bytes can say every text.
  [[nodiscard]] int32_t unk_id() const { return pipeline_.model->unk_id(); }
  /// -1 where there is no mask token (classification needs none).
  [[nodiscard]] int32_t mask_id() const { return mask_; }
  /// Number of ids, added tokens included.
  [[nodiscard]] int64_t vocab_size() const { return size_; }
  /// Whether texts lose their capitals before they are cut.
  [[nodiscard]] bool makes_lower_case() const;
  /// Text of a token; Error{bad_data} for an id out of range.
  [[nodiscard]] std::string_view token(int64_t id) const;
  /// A text that differs where the tokens of some text would.
  [[nodiscard]] std::string fingerprint() const;
  /// Whether pairs have the types of the template; else all are 0.
  [[nodiscard]] bool has_type_ids() const { return spec_->has_type_ids; }

  /// Writes tokenizer.json, tokenizer_config.json and, for WordPiece, vocab.txt; makes the folder
  /// where it is missing. `transformers` and load() read them back as the same tokenizer.
  /// Limits are written as far as they are said; `transformers` makes token type ids unless told
  /// that the model has none.
  void save(const std::filesystem::path& folder, const TextLimits& limits = {},
            bool has_type_ids = true) const;
  /// Those of a folder's tokenizer_config.json (the huge model_max_length of transformers says
  /// nothing).
  [[nodiscard]] static TextLimits saved_limits(const std::filesystem::path& folder);
  /// Bytes of all tokens of the vocabulary.
  [[nodiscard]] int64_t token_bytes() const { return spec_->vocabulary.text_bytes(); }
  /// Heap bytes beside the tokens and what finds them: merges, scores, a trie, a charsmap.
  [[nodiscard]] int64_t table_bytes() const;
  /// Working memory that a word takes for each of its bytes; a text may be one word.
  [[nodiscard]] int64_t bytes_per_word_byte() const { return pipeline_.model->bytes_per_byte(); }
  /// Heap bytes that this tokenizer holds, without the allocator's rounding.
  [[nodiscard]] int64_t approximate_bytes() const;

 private:
  explicit Tokenizer(TokenizerSpec spec);
  void append(std::string_view text, std::vector<int32_t>& ids, EncodeScratch& scratch) const;
  /// All words into scratch.first; `begins` has each one's first token, -1 where it has none.
  void append_words(std::span<const std::string> words, std::vector<int32_t>& begins,
                    EncodeScratch& scratch) const;
  void append_normalized(const TextPiece& piece, std::vector<int32_t>& ids,
                         EncodeScratch& scratch) const;
  void append_word(std::string_view word, std::vector<int32_t>& ids, EncodeScratch& scratch) const;
  void find_roles();

  std::unique_ptr<TokenizerSpec> spec_;  // where it lies does not change: the model looks into it
  Pipeline pipeline_;
  AddedTokenMatcher raw_matcher_;         // in the text as it came
  AddedTokenMatcher normalized_matcher_;  // in the normalised text
  std::shared_ptr<const int> identity_;   // whose words a cache holds
  int64_t size_ = 0;
  int32_t pad_ = -1, mask_ = -1;
};

}  // namespace snug::text
