// SPDX-License-Identifier: Apache-2.0
// What a tokenizer is made of, as data, and the files it is read from and written to. Whatever the
// files are, it is said as tokenizer.json says it: the pipeline is text of that file, the
// vocabulary and the merges are tables. Reading is strict: what would change the tokens and is not
// supported is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/text_limits.h"
#include "text/token_table.h"
#include "text/unigram_model.h"

namespace snug::text {

/// Names of the tokens with a role; empty where there is none.
struct TokenRoles {
  std::string pad, unk, cls, sep, mask;
  friend bool operator==(const TokenRoles&, const TokenRoles&) = default;
  /// With the names of `other` where there is none.
  [[nodiscard]] TokenRoles or_else(const TokenRoles& other) const {
    const auto first = [](const std::string& a, const std::string& b) { return a.empty() ? b : a; };
    return {.pad = first(pad, other.pad),
            .unk = first(unk, other.unk),
            .cls = first(cls, other.cls),
            .sep = first(sep, other.sep),
            .mask = first(mask, other.mask)};
  }
};
/// BERT's.
[[nodiscard]] inline TokenRoles bert_roles() {
  return {.pad = "[PAD]", .unk = "[UNK]", .cls = "[CLS]", .sep = "[SEP]", .mask = "[MASK]"};
}

/// RoBERTa's, XLM-R's and CamemBERT's.
[[nodiscard]] inline TokenRoles fairseq_roles() {
  return {.pad = "<pad>", .unk = "<unk>", .cls = "<s>", .sep = "</s>", .mask = "<mask>"};
}

/// A sentencepiece model beside the tables: its normalisation, and the kinds of its pieces.
struct SentencePieceSpec {
  std::string file;              ///< as it was read; it is written again
  std::string_view charsmap;     ///< lies in the file
  std::vector<PieceKind> kinds;  ///< one for each token
  std::string tokenizer_class;   ///< transformers' name
  int32_t unk = -1;
  bool is_bpe = false;  ///< else Unigram
  bool byte_fallback = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

struct TokenizerSpec {
  TokenTable vocabulary;          ///< the model's tokens; ids count from 0
  std::vector<double> scores;     ///< of Unigram: one for each token
  std::vector<BpeMerge> merges;   ///< of BPE
  std::vector<AddedToken> added;  ///< their ids lie in the vocabulary, or follow it without gaps
  TokenRoles roles;               ///< as far as other files than the pipeline say them
  bool has_type_ids = true;       ///< else all are 0, whatever the template says
  std::string pipeline;           ///< {"normalizer", "pre_tokenizer", "post_processor", "decoder"}
  std::string model;              ///< the object "model" without vocab and merges
  std::string where;              ///< the file, for messages
  std::optional<SentencePieceSpec> sentencepiece;  ///< in place of normalizer, splitter and model

  /// The id of a token of the vocabulary, or of an added one; -1 where there is none.
  [[nodiscard]] int32_t find(std::string_view token) const;
};

/// A token that tokenizer_config.json or a file beside it declares.
struct DeclaredToken {
  AddedToken token;              ///< its id is -1 where none is said
  std::string key, where;        ///< which names it, and of which file
  bool has_options = true;       ///< else a bare name, whose options are those of its class
  bool is_of_decoder = false;    ///< of added_tokens_decoder, which counts before tokenizer.json
  bool is_of_version_5 = false;  ///< transformers 4 does not read it
};

/// What tokenizer_config.json says, as far as it changes tokens.
struct TokenizerConfig {
  bool exists = false;
  TokenRoles roles;  ///< those that are named
  std::optional<bool> lowercase;
  std::optional<bool> strip_accents;
  std::optional<bool> handle_chinese_chars;
  std::optional<bool> add_prefix_space;
  std::vector<DeclaredToken> declared;  ///< in transformers' order
  std::string tokenizer_class;          ///< transformers' name, here or in config.json
  std::string usual_class;              ///< where none is named: by the model_type of config.json
  bool keep_accents = false, remove_space = true;  ///< ALBERT's
  bool split_by_punct = false;
  std::optional<bool> has_type_ids;  ///< by the inputs of the model; unset: as the template says
  TextLimits limits;
  std::string where;
};

/// The most bytes of a file; published vocabularies of half a million tokens take 20 MB.
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{32} << 20;
/// The most values of a JSON file, its vocabulary and merges apart: seven for each added token.
inline constexpr int64_t kMaxTokenizerValues = 200'000;

/// Reads tokenizer_config.json and config.json for the class where it names none; where it has no
/// added_tokens_decoder, special_tokens_map.json and added_tokens.json too. Missing files say
/// nothing.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::string& file);
/// Reads one token a line; the id is the line.
[[nodiscard]] TokenizerSpec read_vocab_txt(const std::string& file, const TokenizerConfig& config);
/// Reads Hugging Face's tokenizer.json.
[[nodiscard]] TokenizerSpec read_tokenizer_json(const std::string& file, TokenizerConfig config);
/// Reads vocab.json and merges.txt: RoBERTa's and GPT-2's.
[[nodiscard]] TokenizerSpec read_bpe_files(const std::string& vocabulary, const std::string& merges,
                                           const TokenizerConfig& config);
/// Reads a sentencepiece model: DeBERTa's, XLM-R's or CamemBERT's.
[[nodiscard]] TokenizerSpec read_sentencepiece(const std::string& file,
                                               const TokenizerConfig& config);
/// Reads ALBERT's spiece.model.
[[nodiscard]] TokenizerSpec read_albert(const std::string& file, const TokenizerConfig& config);

/// Writes tokenizer.json, tokenizer_config.json and, for WordPiece, vocab.txt into an existing
/// folder; the limits that are said, model_input_names where there are no type ids.
void write_tokenizer_files(const TokenizerSpec& spec, const std::string& folder,
                           const TextLimits& limits, bool has_type_ids);

/// A number of tokenizer.json as the package reads it: its digits as a whole number, then one
/// division by a power of ten, which may round once more than the nearest double does. Sums of
/// scores that are all but equal depend on it.
[[nodiscard]] double read_score(const std::string& text);

/// Adds one token to a vocabulary under construction; `line` names it in messages.
void add_vocabulary_token(TokenizerSpec& spec, std::string_view token, const std::string& line);
/// The same where a token may stand twice: it has the id of the last, as transformers gives it.
void add_last_of_token(TokenizerSpec& spec, std::string_view token, const std::string& line);
/// What to do about a vocabulary without the token of a role ("pad"), that leaves all ids as they
/// are.
[[nodiscard]] std::string missing_role_hint(const std::string& role);
/// Makes the tokens with a role added tokens, where they are not yet.
void add_role_tokens(TokenizerSpec& spec, const TokenRoles& roles);
/// Whose options (lstrip and its like) a token has that was added before it is declared.
enum class KnownOptions : uint8_t { of_tokenizer_json, of_declaration };
/// Adds what the files declare, as transformers does: a token of the vocabulary keeps its id,
/// another gets the next one; an id that is said must be that. Comes behind the tokens that the
/// file or its class has.
void add_declared_tokens(TokenizerSpec& spec, const TokenizerConfig& config,
                         KnownOptions options = KnownOptions::of_declaration);
/// Refuses added tokens that are too long or too many: searching for them takes memory in
/// proportion to their bytes.
void check_added_tokens(const TokenizerSpec& spec);

}  // namespace snug::text
