// SPDX-License-Identifier: Apache-2.0
// A sentencepiece model, Unigram or BPE: DeBERTa's, XLM-R's and CamemBERT's, with the ids and the
// tokens around a text that transformers gives them.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "snug/error.h"
#include "text/byte_pieces.h"
#include "text/protobuf_fields.h"
#include "text/tokenizer_spec.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kUnigram = 1;
constexpr uint64_t kBpe = 2;

struct Piece {
  std::string_view text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

struct Model {
  std::vector<Piece> pieces;
  uint64_t type = kUnigram;
  bool is_suffix = false;
};

Piece read_piece(std::string_view bytes, const std::string& where) {
  Piece piece;
  ProtobufFields fields(bytes, where);
  while (fields.next()) {
    if (fields.number == 1) piece.text = fields.text();
    if (fields.number == 2) piece.score = fields.number32();
    if (fields.number != 3) continue;
    if (fields.value < 1 || fields.value > 6) fields.fail();
    piece.kind = static_cast<PieceKind>(fields.value - 1);
  }
  if (!std::isfinite(piece.score)) fields.fail();
  return piece;
}

Model read_model(std::string_view bytes, SentencePieceSpec& spec, const std::string& where) {
  Model model;
  ProtobufFields fields(bytes, where);
  while (fields.next()) {
    if (fields.number == 1) model.pieces.push_back(read_piece(fields.text(), where));
    if (fields.number == 2) {
      ProtobufFields trainer(fields.text(), where);
      while (trainer.next()) {
        if (trainer.number == 3) model.type = trainer.value;
        if (trainer.number == 24) model.is_suffix = trainer.flag();
        if (trainer.number == 35) spec.byte_fallback = trainer.flag();
      }
    }
    if (fields.number != 3) continue;
    ProtobufFields normalizer(fields.text(), where);
    while (normalizer.next()) {
      if (normalizer.number == 2) spec.charsmap = normalizer.text();
      if (normalizer.number == 3) spec.add_dummy_prefix = normalizer.flag();
      if (normalizer.number == 4) spec.remove_extra_whitespaces = normalizer.flag();
      if (normalizer.number == 5) spec.escape_whitespaces = normalizer.flag();
    }
  }
  return model;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::unsupported, where, what + " is not supported",
              "save the tokenizer again with transformers, which writes tokenizer.json");
}

/// What transformers makes of the model.
struct Family {
  const char* tokenizer_class;
  std::array<const char*, 5> first{};  // fairseq's tokens before the pieces, nullptr after the last
  size_t skipped = 0;                  // pieces of the model that are among them

  /// Else its ids are those of the model, and pairs have two types.
  [[nodiscard]] bool is_fairseq() const { return first[0] != nullptr; }
};
constexpr Family kFamilies[] = {
    {.tokenizer_class = "DebertaV2Tokenizer"},
    {.tokenizer_class = "XLMRobertaTokenizer",
     .first = {"<s>", "<pad>", "</s>", "<unk>"},
     .skipped = 3},
    // <s> and </s> of the model are those that are used, with the ids 5 and 6.
    {.tokenizer_class = "CamembertTokenizer",
     .first = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"},
     .skipped = 1},
};

const Family& family_of(const TokenizerConfig& config, const std::string& file) {
  std::string name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name.empty() && file.ends_with("/spm.model")) name = "DebertaV2Tokenizer";
  if (name.empty() && file.ends_with(".bpe.model")) name = "XLMRobertaTokenizer";
  for (const Family& family : kFamilies) {
    if (name == family.tokenizer_class) return family;
  }
  refuse(file, name.empty() ? "a sentencepiece model of this name"
                            : "a sentencepiece model of tokenizer_class '" + name + "'");
}

void add(TokenizerSpec& spec, const Piece& piece) {
  add_vocabulary_token(spec, piece.text, "piece " + std::to_string(spec.vocabulary.size()));
  spec.scores.push_back(piece.score);
  spec.sentencepiece->kinds.push_back(piece.kind);
}

/// fairseq's own tokens, before the pieces.
void add_fairseq_tokens(TokenizerSpec& spec, const Family& family, const Model& model,
                        const std::string& file) {
  if (model.pieces.size() < 3 || model.pieces[0].text != "<unk>" || model.pieces[1].text != "<s>" ||
      model.pieces[2].text != "</s>")
    refuse(file, "a vocabulary of XLM-R or CamemBERT that does not begin with <unk>, <s>, </s>");
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

std::string role(const std::string& named, const char* usual) {
  return named.empty() ? std::string(usual) : named;
}

}  // namespace

TokenizerSpec read_sentencepiece(const std::string& file, const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = file;
  spec.sentencepiece.emplace();
  spec.sentencepiece->file = io::read_all(file, kMaxTokenizerFileBytes);
  const Model model = read_model(spec.sentencepiece->file, *spec.sentencepiece, file);
  if (model.type != kUnigram && model.type != kBpe)
    refuse(file, "a sentencepiece model that is neither a unigram nor a BPE model");
  spec.sentencepiece->is_bpe = model.type == kBpe;
  if (model.is_suffix) refuse(file, "treat_whitespace_as_suffix");
  if (config.lowercase.value_or(false)) refuse(config.where, "do_lower_case");
  if (config.split_by_punct) refuse(config.where, "split_by_punct");
  const Family& family = family_of(config, file);
  const bool is_deberta = !family.is_fairseq();
  const TokenRoles& named = config.roles;
  spec.roles = {.pad = role(named.pad, is_deberta ? "[PAD]" : "<pad>"),
                .unk = role(named.unk, is_deberta ? "[UNK]" : "<unk>"),
                .cls = role(named.cls, is_deberta ? "[CLS]" : "<s>"),
                .sep = role(named.sep, is_deberta ? "[SEP]" : "</s>"),
                .mask = role(named.mask, is_deberta ? "[MASK]" : "<mask>")};
  if (family.is_fairseq()) add_fairseq_tokens(spec, family, model, file);
  for (size_t i = family.skipped; i < model.pieces.size(); ++i) add(spec, model.pieces[i]);
  for (size_t i = 0; i < spec.sentencepiece->kinds.size(); ++i) {
    if (spec.sentencepiece->kinds[i] == PieceKind::unknown)
      spec.sentencepiece->unk = static_cast<int32_t>(i);
  }
  if (spec.sentencepiece->byte_fallback && !BytePieces(spec.vocabulary).has_every_byte())
    throw Error(ErrorCode::bad_data, file, "byte_fallback without a piece for every byte",
                "get the model again");
  if (spec.sentencepiece->unk < 0) refuse(file, "a model without an unknown piece");
  for (const std::string* name :
       {&spec.roles.cls, &spec.roles.pad, &spec.roles.sep, &spec.roles.unk})
    add_special(spec, *name, false);
  add_special(spec, spec.roles.mask, !is_deberta);
  for (const AddedToken& token : config.added) {
    const int32_t known = spec.find(token.content);
    if (known != token.id)
      refuse(config.where,
             "added_tokens_decoder with '" + token.content + "' at id " + std::to_string(token.id));
  }
  spec.pipeline = pipeline_of(spec, is_deberta, is_deberta ? 1 : 2);
  spec.sentencepiece->tokenizer_class = family.tokenizer_class;
  return spec;
}

}  // namespace snug
