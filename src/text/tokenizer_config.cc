// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer_config.json, and writes the three files of a tokenizer.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/json_fields.h"
#include "text/wordpiece_spec.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

void read_role(const JsonFields& fields, const char* key, std::string& role) {
  if (!fields.has_value(key)) return;
  const io::JsonValue value = fields.at(key);
  role = value.is_object() ? JsonFields(value, fields.where(), key).required_string("content")
                           : fields.required_string(key);
}

void read_added(const JsonFields& fields, TokenizerConfig& config) {
  if (!fields.has("added_tokens_decoder")) return;
  const JsonFields tokens(fields.at("added_tokens_decoder"), config.where, "added_tokens_decoder");
  for (const std::string& key : tokens.keys()) {
    AddedToken token =
        read_added_token(JsonFields(tokens.at(key), config.where, "added_tokens_decoder"));
    const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (status != std::errc() || end != key.data() + key.size() || token.id < 0) {
      fields.fail("added_tokens_decoder has the id '" + key + "'");
    }
    config.added.push_back(std::move(token));
  }
  std::sort(config.added.begin(), config.added.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
}

/// transformers writes 10^30 where nothing is known.
std::optional<int64_t> read_max_length(const JsonFields& fields) {
  constexpr double kMostTokens = 1 << 20;
  if (!fields.has_value("model_max_length")) return std::nullopt;
  const io::JsonValue value = fields.at("model_max_length");
  if (!value.is_number()) fields.fail("model_max_length must be a number of tokens");
  const double tokens = value.as_double();
  if (tokens > kMostTokens) return std::nullopt;
  if (!(tokens >= 1) || tokens != std::floor(tokens))
    fields.fail("model_max_length must be a whole number of tokens above 0");
  return static_cast<int64_t>(tokens);
}

Json template_step(const char* kind, const std::string& id, int type) {
  return Json{{kind, Json{{"id", id}, {"type_id", type}}}};
}

Json template_of(const WordPieceSpec& spec) {
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

Json strip_accents_of(const WordPieceSpec& spec) {
  return spec.normalizer.strip_accents ? Json(*spec.normalizer.strip_accents) : Json();
}

/// The file as text: everything but the vocabulary by the JSON library, whose ordered objects are
/// lists and would take quadratic time for 30,000 keys.
std::string tokenizer_json_of(const WordPieceSpec& spec) {
  Json added = Json::array();
  for (const AddedToken& token : spec.added) {
    added.push_back(Json{{"id", token.id},
                         {"content", token.content},
                         {"single_word", token.single_word},
                         {"lstrip", token.lstrip},
                         {"rstrip", token.rstrip},
                         {"normalized", token.normalized},
                         {"special", token.special}});
  }
  Json head{
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added}};
  head["normalizer"] = Json{{"type", "BertNormalizer"},
                            {"clean_text", spec.normalizer.clean_text},
                            {"handle_chinese_chars", spec.normalizer.handle_chinese_chars},
                            {"strip_accents", strip_accents_of(spec)},
                            {"lowercase", spec.normalizer.lowercase}};
  head["pre_tokenizer"] = Json{{"type", "BertPreTokenizer"}};
  head["post_processor"] = template_of(spec);
  head["decoder"] = Json{{"type", "WordPiece"}, {"prefix", spec.prefix}, {"cleanup", true}};
  Json model{{"type", "WordPiece"},
             {"unk_token", spec.roles.unk},
             {"continuing_subword_prefix", spec.prefix},
             {"max_input_chars_per_word", spec.max_input_chars_per_word}};

  std::string text = head.dump(2);
  text.resize(text.size() - 2);  // "\n}"
  std::string inner = model.dump();
  inner.pop_back();
  text += ",\n  \"model\": " + inner + ",\"vocab\": {";
  for (int64_t id = 0; id < spec.vocabulary.size(); ++id) {
    text += (id == 0 ? "\n    " : ",\n    ") + Json(spec.vocabulary.token(id)).dump() + ": " +
            std::to_string(id);
  }
  return text + "\n  }}\n}\n";
}

/// transformers' BertTokenizer rebuilds itself from the vocabulary and the few options of
/// tokenizer_config.json; any other tokenizer must be read as it stands in tokenizer.json.
bool is_plain_bert(const WordPieceSpec& spec) {
  const auto is_role = [&](const AddedToken& token) {
    const TokenRoles& r = spec.roles;
    const std::string& name = token.content;
    const bool is_named =
        name == r.pad || name == r.unk || name == r.cls || name == r.sep || name == r.mask;
    return is_named && token.special && !token.normalized && !token.single_word && !token.lstrip &&
           !token.rstrip;
  };
  return spec.normalizer.clean_text && spec.prefix == "##" &&
         spec.max_input_chars_per_word == 100 &&
         std::all_of(spec.added.begin(), spec.added.end(), is_role);
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& file) {
  TokenizerConfig config;
  config.where = file;
  if (!io::file_exists(file)) return config;
  config.exists = true;
  const io::JsonValue document = io::parse_json(io::read_all(file, kMaxTokenizerFileBytes), file,
                                                {.max_values = kMaxTokenizerValues});
  const JsonFields fields(document, config.where, "tokenizer_config");
  read_role(fields, "pad_token", config.roles.pad);
  read_role(fields, "cls_token", config.roles.cls);
  read_role(fields, "sep_token", config.roles.sep);
  read_role(fields, "mask_token", config.roles.mask);
  config.names_unk = fields.has_value("unk_token");
  read_role(fields, "unk_token", config.roles.unk);
  config.lowercase = fields.boolean("do_lower_case");
  config.strip_accents = fields.boolean("strip_accents");
  config.handle_chinese_chars = fields.boolean("tokenize_chinese_chars");
  if (fields.has_value("tokenizer_class")) {
    config.tokenizer_class = fields.required_string("tokenizer_class");
  }
  config.model_max_length = read_max_length(fields);
  if (!fields.boolean("do_basic_tokenize").value_or(true))
    fields.fail("do_basic_tokenize false is not supported");
  if (fields.has("padding_side")) fields.require_string("padding_side", "right");
  if (fields.has("truncation_side")) fields.require_string("truncation_side", "right");
  if (fields.has_value("never_split") &&
      (!fields.at("never_split").is_array() || fields.at("never_split").size() != 0)) {
    fields.fail("never_split is not supported");
  }
  read_added(fields, config);
  return config;
}

void write_tokenizer_files(const WordPieceSpec& spec, const std::string& folder,
                           int64_t model_max_length, bool has_type_ids) {
  std::string lines;
  for (int64_t id = 0; id < spec.vocabulary.size(); ++id) {
    lines.append(spec.vocabulary.token(id));
    lines.push_back('\n');
  }
  io::write_file(folder + "/vocab.txt", lines);
  io::write_file(folder + "/tokenizer.json", tokenizer_json_of(spec));
  Json config{
      {"tokenizer_class", is_plain_bert(spec) ? "BertTokenizer" : "PreTrainedTokenizerFast"},
      {"do_lower_case", spec.normalizer.lowercase},
      {"strip_accents", strip_accents_of(spec)},
      {"tokenize_chinese_chars", spec.normalizer.handle_chinese_chars},
      {"pad_token", spec.roles.pad},
      {"unk_token", spec.roles.unk},
      {"cls_token", spec.roles.cls},
      {"sep_token", spec.roles.sep}};
  if (spec.vocabulary.find(spec.roles.mask) >= 0) config["mask_token"] = spec.roles.mask;
  if (model_max_length > 0) config["model_max_length"] = model_max_length;
  if (!has_type_ids) config["model_input_names"] = {"input_ids", "attention_mask"};
  io::write_file(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace snug
