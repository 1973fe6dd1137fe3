// SPDX-License-Identifier: Apache-2.0
// What a WordPiece tokenizer is made of, as data, and the files it is read from and written to.
// Reading is strict: what would change the tokens and is not supported is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bert_normalizer.h"
#include "text/token_table.h"

namespace snug {

/// Names of the tokens with a role.
struct TokenRoles {
  std::string pad = "[PAD]", unk = "[UNK]", cls = "[CLS]", sep = "[SEP]", mask = "[MASK]";
  friend bool operator==(const TokenRoles&, const TokenRoles&) = default;
};

struct WordPieceSpec {
  TokenTable vocabulary;          ///< the model's tokens; ids count from 0
  std::vector<AddedToken> added;  ///< their ids lie in the vocabulary, or follow it without gaps
  BertNormalizerOptions normalizer;
  TokenRoles roles;
  std::string prefix = "##";  ///< of pieces that continue a word
  int64_t max_input_chars_per_word = 100;
  std::string where;  ///< the file, for messages
};

/// What tokenizer_config.json says, as far as it changes tokens.
struct TokenizerConfig {
  bool exists = false;
  TokenRoles roles;
  bool names_unk = false;  ///< roles.unk was written in the file
  std::optional<bool> lowercase;
  std::optional<bool> strip_accents;
  std::optional<bool> handle_chinese_chars;
  std::vector<AddedToken> added;  ///< added_tokens_decoder
  std::string tokenizer_class;
  std::optional<int64_t> model_max_length;  ///< in tokens
  std::string where;
};

/// Of a file; published vocabularies of half a million tokens take 10 MB.
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{32} << 20;
/// Of a JSON file, its vocabulary apart.
inline constexpr int64_t kMaxTokenizerValues = 100'000;

/// Reads tokenizer_config.json; a missing file gives the defaults.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::string& file);
/// Reads one token a line; the id is the line.
[[nodiscard]] WordPieceSpec read_vocab_txt(const std::string& file, const TokenizerConfig& config);
/// Reads Hugging Face's tokenizer.json.
[[nodiscard]] WordPieceSpec read_tokenizer_json(const std::string& file,
                                                const TokenizerConfig& config);
/// Writes vocab.txt, tokenizer.json and tokenizer_config.json into an existing folder;
/// model_max_length where it is above 0, model_input_names where there are no type ids.
void write_tokenizer_files(const WordPieceSpec& spec, const std::string& folder,
                           int64_t model_max_length, bool has_type_ids);

/// Adds one token to a vocabulary under construction; `line` names it in messages.
void add_vocabulary_token(WordPieceSpec& spec, std::string_view token, const std::string& line);
/// Makes the tokens with a role added tokens, where they are not yet.
void add_role_tokens(WordPieceSpec& spec);
/// Refuses added tokens that are too long or too many: searching for them takes memory in
/// proportion to their bytes.
void check_added_tokens(const WordPieceSpec& spec);

}  // namespace snug
