// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer_config.json, and writes the three files of a tokenizer.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "snug/error.h"
#include "text/foreign_file.h"
#include "text/json_fields.h"
#include "text/wordpiece_spec.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

void read_role(const JsonFields& fields, const char* key, std::string& role) {
  if (!fields.has(key) || fields.at(key).is_null()) return;
  const nlohmann::json& value = fields.at(key);
  role = value.is_object() ? JsonFields(value, fields.where(), key).required_string("content")
                           : fields.required_string(key);
}

void read_added(const JsonFields& fields, TokenizerConfig& config) {
  if (!fields.has("added_tokens_decoder")) return;
  for (const auto& [key, value] : fields.at("added_tokens_decoder").items()) {
    AddedToken token = read_added_token(JsonFields(value, config.where, "added_tokens_decoder"));
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
  if (!fields.has("model_max_length") || fields.at("model_max_length").is_null())
    return std::nullopt;
  const nlohmann::json& value = fields.at("model_max_length");
  if (!value.is_number()) fields.fail("model_max_length must be a number of tokens");
  const auto tokens = value.get<double>();
  if (tokens > kMostTokens) return std::nullopt;
  if (!(tokens >= 1) || tokens != std::floor(tokens))
    fields.fail("model_max_length must be a whole number of tokens above 0");
  return static_cast<int64_t>(tokens);
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  const bool is_written = out.good();
  out.close();  // Linux closes the file even where a signal interrupts that
  if (!is_written || (!out && errno != EINTR))
    throw Error(ErrorCode::io, file.string(), "cannot be written",
                "check the folder and the space on the disk");
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

bool is_there(const std::filesystem::path& file) {
  return std::filesystem::exists(status_of(file));
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& file) {
  TokenizerConfig config;
  config.where = file.string();
  if (!is_there(file)) return config;
  config.exists = true;
  std::ifstream in = open_tokenizer_file(file);
  nlohmann::json document;
  try {
    document = parse_bounded_json(in, {});
  } catch (const BadJson& error) {
    throw Error(ErrorCode::bad_data, config.where, std::string("is not JSON: ") + error.what(),
                "write the file again");
  } catch (const std::ios_base::failure&) {
    throw Error(ErrorCode::io, config.where, "cannot be read", "check the disk");
  }
  const JsonFields fields(document, config.where, "tokenizer_config");
  read_role(fields, "pad_token", config.roles.pad);
  read_role(fields, "cls_token", config.roles.cls);
  read_role(fields, "sep_token", config.roles.sep);
  read_role(fields, "mask_token", config.roles.mask);
  config.names_unk = fields.has("unk_token") && !fields.at("unk_token").is_null();
  read_role(fields, "unk_token", config.roles.unk);
  config.lowercase = fields.boolean("do_lower_case");
  config.strip_accents = fields.boolean("strip_accents");
  config.handle_chinese_chars = fields.boolean("tokenize_chinese_chars");
  if (fields.has("tokenizer_class") && !fields.at("tokenizer_class").is_null()) {
    config.tokenizer_class = fields.required_string("tokenizer_class");
  }
  config.model_max_length = read_max_length(fields);
  if (!fields.boolean("do_basic_tokenize").value_or(true))
    fields.fail("do_basic_tokenize false is not supported");
  if (fields.has("padding_side")) fields.require_string("padding_side", "right");
  if (fields.has("truncation_side")) fields.require_string("truncation_side", "right");
  if (fields.has("never_split") && !fields.at("never_split").is_null() &&
      !fields.at("never_split").empty()) {
    fields.fail("never_split is not supported");
  }
  read_added(fields, config);
  return config;
}

void write_tokenizer_files(const WordPieceSpec& spec, const std::filesystem::path& folder,
                           int64_t model_max_length, bool has_type_ids) {
  std::string lines;
  for (int64_t id = 0; id < spec.vocabulary.size(); ++id) {
    lines.append(spec.vocabulary.token(id));
    lines.push_back('\n');
  }
  write_file(folder / "vocab.txt", lines);
  write_file(folder / "tokenizer.json", tokenizer_json_of(spec));
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
  write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace snug
