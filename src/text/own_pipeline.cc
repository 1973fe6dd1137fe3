// SPDX-License-Identifier: Apache-2.0
#include "text/own_pipeline.h"

#include <nlohmann/json.hpp>

#include "snug/error.h"
#include "text/base64.h"

namespace snug::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpaceSign = "\u2581";  // sentencepiece's, before each word

Json template_step(const char* kind, const std::string& id, int type) {
  return Json{{kind, Json{{"id", id}, {"type_id", type}}}};
}

Json bert_template(const TokenizerSpec& spec) {
  const TokenRoles& roles = spec.roles;
  Json out{{"type", "TemplateProcessing"}};
  out["single"] =
      Json::array({template_step("SpecialToken", roles.cls, 0), template_step("Sequence", "A", 0),
                   template_step("SpecialToken", roles.sep, 0)});
  out["pair"] = out["single"];
  out["pair"].push_back(template_step("Sequence", "B", 1));
  out["pair"].push_back(template_step("SpecialToken", roles.sep, 1));
  for (const std::string& name : {roles.cls, roles.sep}) {
    out["special_tokens"][name] = Json{{"id", name},
                                       {"ids", Json::array({spec.vocabulary.find(name)})},
                                       {"tokens", Json::array({name})}};
  }
  return out;
}

/// The parts of a kind, as the package's own BertWordPiece, ByteLevelBPE and SentencePieceUnigram
/// have them.
struct Parts {
  Json normalizer, pre_tokenizer, decoder, model;
};

Parts wordpiece_parts(const BertNormalizerOptions& options, const std::string& unk) {
  return {.normalizer = {{"type", "BertNormalizer"},
                         {"clean_text", options.clean_text},
                         {"handle_chinese_chars", options.handle_chinese_chars},
                         {"strip_accents",
                          options.strip_accents ? Json(*options.strip_accents) : Json()},
                         {"lowercase", options.lowercase}},
          .pre_tokenizer = {{"type", "BertPreTokenizer"}},
          .decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
          .model = {{"type", "WordPiece"},
                    {"unk_token", unk},
                    {"continuing_subword_prefix", "##"},
                    {"max_input_chars_per_word", 100}}};
}

/// The space before a word belongs to it; the first word of a text has one, so that it is the same
/// word there.
Parts bpe_parts() {
  const Json bytes{{"type", "ByteLevel"},
                   {"add_prefix_space", true},
                   {"trim_offsets", true},
                   {"use_regex", true}};
  return {.normalizer = nullptr,
          .pre_tokenizer = bytes,
          .decoder = bytes,
          .model = {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"ignore_merges", false}}};
}

Json spaces_as_signs() {
  return {{"type", "Metaspace"},
          {"replacement", kSpaceSign},
          {"prepend_scheme", "always"},
          {"split", true}};
}

Json unigram_model(int32_t unk) {
  return {{"type", "Unigram"}, {"unk_id", unk}, {"byte_fallback", false}};
}

Parts unigram_parts(int32_t unk) {
  const Json words = spaces_as_signs();
  const Json strip{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  const Json one_space{{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
  return {.normalizer = {{"type", "Sequence"},
                         {"normalizers", Json::array({Json{{"type", "Nmt"}}, Json{{"type", "NFKC"}},
                                                      strip, one_space})}},
          .pre_tokenizer = words,
          .decoder = words,
          .model = unigram_model(unk)};
}

Parts albert_parts(const AlbertNormalizerOptions& options, int32_t unk) {
  Json steps = Json::array();
  for (const char* quote : {"``", "''"})
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", quote}}}, {"content", "\""}});
  if (!options.keep_accents) {
    steps.push_back({{"type", "NFKD"}});
    steps.push_back({{"type", "StripAccents"}});
  }
  if (options.lowercase) steps.push_back({{"type", "Lowercase"}});
  if (!options.charsmap.empty()) {
    steps.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(options.charsmap)}});
  }
  const Json words = spaces_as_signs();
  return {
      .normalizer = {{"type", "Sequence"}, {"normalizers", std::move(steps)}},
      .pre_tokenizer = {{"type", "Sequence"},
                        {"pretokenizers", Json::array({Json{{"type", "WhitespaceSplit"}}, words})}},
      .decoder = words,
      .model = unigram_model(unk)};
}

Parts parts_of(TokenizerKind kind, const BertNormalizerOptions& of_wordpiece,
               const std::string& unk, int32_t unk_id) {
  if (kind == TokenizerKind::bpe) return bpe_parts();
  return kind == TokenizerKind::unigram ? unigram_parts(unk_id)
                                        : wordpiece_parts(of_wordpiece, unk);
}

void require_roles(const TokenizerSpec& spec) {
  const auto require = [&](const std::string& role, const std::string& name) {
    if (spec.vocabulary.find(name) >= 0) return;
    throw Error(ErrorCode::bad_data, spec.where,
                "the vocabulary has no " + role + " token '" + name + "'", missing_role_hint(role));
  };
  require("unk", spec.roles.unk);
  require("cls", spec.roles.cls);
  require("sep", spec.roles.sep);
  require("pad", spec.roles.pad);
}

void set_parts(TokenizerSpec& spec, const Parts& parts) {
  spec.pipeline = Json{
      {"normalizer", parts.normalizer},
      {"pre_tokenizer", parts.pre_tokenizer},
      {"post_processor", bert_template(spec)},
      {"decoder",
       parts.decoder}}.dump();
  spec.model = parts.model.dump();
}

}  // namespace

WordSteps word_steps(TokenizerKind kind, const BertNormalizerOptions& of_wordpiece) {
  const Parts parts = parts_of(kind, of_wordpiece, "", 0);
  return {.normalizer = parts.normalizer.dump(), .pre_tokenizer = parts.pre_tokenizer.dump()};
}

void set_pipeline(TokenizerSpec& spec, TokenizerKind kind,
                  const BertNormalizerOptions& of_wordpiece) {
  require_roles(spec);
  set_parts(spec,
            parts_of(kind, of_wordpiece, spec.roles.unk, spec.vocabulary.find(spec.roles.unk)));
}

void set_albert_pipeline(TokenizerSpec& spec, const AlbertNormalizerOptions& options) {
  require_roles(spec);
  set_parts(spec, albert_parts(options, spec.vocabulary.find(spec.roles.unk)));
}

}  // namespace snug::text
