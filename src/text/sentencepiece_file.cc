// SPDX-License-Identifier: Apache-2.0
// A sentencepiece model as sentencepiece reads it, Unigram or BPE: DeBERTa's, XLM-R's and
// CamemBERT's, with the ids and the tokens around a text that transformers gives them.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "snug/error.h"
#include "text/byte_pieces.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_spec.h"

namespace snug::text {
namespace {

using Json = nlohmann::ordered_json;
using Piece = SentencePieceModel::Piece;

/// What transformers makes of the model.
struct PieceFamily {
  const char* tokenizer_class;
  std::array<const char*, 5> first{};  // fairseq's tokens before the pieces, nullptr after the last
  size_t skipped = 0;                  // pieces of the model that are among them

  /// Else its ids are those of the model, and pairs have two types.
  [[nodiscard]] bool is_fairseq() const { return first[0] != nullptr; }
};
constexpr PieceFamily kFamilies[] = {
    {.tokenizer_class = "DebertaV2Tokenizer"},
    {.tokenizer_class = "XLMRobertaTokenizer",
     .first = {"<s>", "<pad>", "</s>", "<unk>"},
     .skipped = 3},
    // <s> and </s> of the model are those that are used, with the ids 5 and 6.
    {.tokenizer_class = "CamembertTokenizer",
     .first = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"},
     .skipped = 1},
};

const PieceFamily& family_of(const TokenizerConfig& config, const std::string& file) {
  std::string name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name.empty() && file.ends_with("/spm.model")) name = "DebertaV2Tokenizer";
  if (name.empty() && file.ends_with(".bpe.model")) {
    const std::string camembert = "CamembertTokenizer";  // its file has the same name
    name = config.usual_class == camembert ? camembert : "XLMRobertaTokenizer";
  }
  for (const PieceFamily& family : kFamilies) {
    if (name == family.tokenizer_class) return family;
  }
  refuse_sentencepiece(file, name.empty()
                                 ? "a sentencepiece model of this name"
                                 : "a sentencepiece model of tokenizer_class '" + name + "'");
}

void add(TokenizerSpec& spec, const Piece& piece) {
  add_vocabulary_token(spec, piece.text, "piece " + std::to_string(spec.vocabulary.size()));
  spec.scores.push_back(piece.score);
  spec.sentencepiece->kinds.push_back(piece.kind);
}

/// fairseq's own tokens, before the pieces.
void add_fairseq_tokens(TokenizerSpec& spec, const PieceFamily& family,
                        const SentencePieceModel& model, const std::string& file) {
  if (model.pieces.size() < 3 || model.pieces[0].text != "<unk>" || model.pieces[1].text != "<s>" ||
      model.pieces[2].text != "</s>")
    refuse_sentencepiece(
        file, "a vocabulary of XLM-R or CamemBERT that does not begin with <unk>, <s>, </s>");
  for (const char* each : family.first) {
    if (each == nullptr) break;
    const std::string_view name = each;
    const bool is_unknown = name == "<unk>";
    add(spec, {.text = name, .kind = is_unknown ? PieceKind::unknown : PieceKind::control});
  }
}

void add_special(TokenizerSpec& spec, const std::string& name, bool takes_space) {
  AddedToken token;
  token.content = name;
  token.id = spec.vocabulary.find(name);
  token.lstrip = takes_space;
  if (token.id < 0) {
    token.id = static_cast<int32_t>(spec.vocabulary.size());
    for (const AddedToken& one : spec.added) token.id = std::max(token.id, one.id + 1);
  }
  spec.added.push_back(std::move(token));
}

std::string pipeline_of(const TokenizerSpec& spec, bool is_pair_of_types, int separators) {
  const auto token = [&](const std::string& name, int type) {
    return Json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  const TokenRoles& roles = spec.roles;
  const int second = is_pair_of_types ? 1 : 0;
  Json single = Json::array({token(roles.cls, 0), text("A", 0), token(roles.sep, 0)});
  Json pair = single;
  for (int i = 1; i < separators; ++i) pair.push_back(token(roles.sep, 0));
  pair.push_back(text("B", second));
  pair.push_back(token(roles.sep, second));
  Json tokens;
  for (const std::string& name : {roles.cls, roles.sep})
    tokens[name] = {{"id", name}, {"ids", {spec.find(name)}}, {"tokens", {name}}};
  return Json{{"post_processor",
               {{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", pair},
                {"special_tokens", tokens}}}}
      .dump();
}

}  // namespace

TokenizerSpec read_sentencepiece(const std::string& file, const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = file;
  spec.sentencepiece.emplace();
  spec.sentencepiece->file = io::read_all(file, kMaxTokenizerFileBytes);
  const SentencePieceModel model = read_sentencepiece_model(spec.sentencepiece->file, file);
  SentencePieceSpec& own = *spec.sentencepiece;
  own.charsmap = model.charsmap;
  own.is_bpe = model.is_bpe;
  own.byte_fallback = model.byte_fallback;
  own.add_dummy_prefix = model.add_dummy_prefix;
  own.remove_extra_whitespaces = model.remove_extra_whitespaces;
  own.escape_whitespaces = model.escape_whitespaces;
  if (config.lowercase.value_or(false)) refuse_sentencepiece(config.where, "do_lower_case");
  if (config.split_by_punct) refuse_sentencepiece(config.where, "split_by_punct");
  const PieceFamily& family = family_of(config, file);
  const bool is_deberta = !family.is_fairseq();
  spec.roles = config.roles.or_else(is_deberta ? bert_roles() : fairseq_roles());
  if (family.is_fairseq()) add_fairseq_tokens(spec, family, model, file);
  for (size_t i = family.skipped; i < model.pieces.size(); ++i) add(spec, model.pieces[i]);
  for (size_t i = 0; i < own.kinds.size(); ++i) {
    if (own.kinds[i] == PieceKind::unknown) own.unk = static_cast<int32_t>(i);
  }
  if (own.byte_fallback && !BytePieces(spec.vocabulary).has_every_byte())
    throw Error(ErrorCode::bad_data, file, "byte_fallback without a piece for every byte",
                "get the model again");
  if (own.unk < 0) refuse_sentencepiece(file, "a model without an unknown piece");
  for (const std::string* name :
       {&spec.roles.cls, &spec.roles.pad, &spec.roles.sep, &spec.roles.unk})
    add_special(spec, *name, false);
  add_special(spec, spec.roles.mask, !is_deberta);
  add_declared_tokens(spec, config);
  spec.pipeline = pipeline_of(spec, is_deberta, is_deberta ? 1 : 2);
  own.tokenizer_class = family.tokenizer_class;
  return spec;
}

}  // namespace snug::text
