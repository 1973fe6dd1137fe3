// SPDX-License-Identifier: Apache-2.0
// ALBERT's spiece.model: the pieces of a sentencepiece model under a normalisation of ALBERT's own,
// as transformers' class says it to the `tokenizers` package.
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "snug/error.h"
#include "text/own_pipeline.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_spec.h"

namespace snug::text {
namespace {

// transformers' converter: a number with the comma behind it is no piece while it can be cut.
constexpr double kNumberWithComma = -100;

bool is_number_with_comma(std::string_view piece) {
  if (piece.size() < 2 || piece.back() != ',') return false;
  const char before = piece[piece.size() - 2];
  return before >= '0' && before <= '9';
}

/// XLNet's and T5's files have the same name.
void check_class(const TokenizerConfig& config, const std::string& file) {
  const std::string& name =
      config.tokenizer_class.empty() ? config.usual_class : config.tokenizer_class;
  if (name == "AlbertTokenizer" || name == "AlbertTokenizerFast") return;
  refuse_sentencepiece(file, name.empty() ? "a spiece.model that no config.json calls ALBERT's"
                                          : "a spiece.model of tokenizer_class '" + name + "'");
}

void add_pieces(TokenizerSpec& spec, const SentencePieceModel& model, const std::string& file) {
  std::string unknown;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    add_vocabulary_token(spec, piece.text, "piece " + std::to_string(spec.vocabulary.size()));
    const double score = piece.score + (is_number_with_comma(piece.text) ? kNumberWithComma : 0);
    // As tokenizer.json gives it back, which is what is saved.
    spec.scores.push_back(read_score(nlohmann::json(score).dump()));
    if (piece.kind == PieceKind::unknown) unknown = piece.text;
    const bool is_special = piece.kind == PieceKind::control;
    // Cut out of a text as it came: the brackets of the published models are such pieces.
    if (!is_special && piece.kind != PieceKind::user_defined) continue;
    AddedToken token;
    token.content = piece.text;
    token.id = static_cast<int32_t>(spec.vocabulary.size() - 1);
    token.special = is_special;
    token.normalized = false;
    spec.added.push_back(std::move(token));
  }
  if (unknown != spec.roles.unk) {
    throw Error(ErrorCode::bad_data, file,
                "the unknown piece is '" + unknown + "', unk_token '" + spec.roles.unk + "'",
                "name the unknown piece as unk_token in tokenizer_config.json");
  }
}

}  // namespace

TokenizerSpec read_albert(const std::string& file, const TokenizerConfig& config) {
  check_class(config, file);
  const std::string bytes = io::read_all(file, kMaxTokenizerFileBytes);
  const SentencePieceModel model = read_sentencepiece_model(bytes, file);
  if (model.is_bpe) refuse_sentencepiece(file, "a BPE model of ALBERT");
  if (model.byte_fallback) refuse_sentencepiece(file, "byte_fallback of ALBERT");
  if (!config.remove_space) refuse_sentencepiece(config.where, "remove_space false");
  TokenizerSpec spec;
  spec.where = file;
  spec.roles = config.roles.or_else(
      {.pad = "<pad>", .unk = "<unk>", .cls = "[CLS]", .sep = "[SEP]", .mask = "[MASK]"});
  add_pieces(spec, model, file);
  add_role_tokens(spec, spec.roles);
  for (AddedToken& token : spec.added) {
    if (token.content == spec.roles.mask) token.lstrip = true;
  }
  add_declared_tokens(spec, config);
  set_albert_pipeline(spec, {.lowercase = config.lowercase.value_or(true),
                             .keep_accents = config.keep_accents,
                             .charsmap = model.charsmap});
  return spec;
}

}  // namespace snug::text
