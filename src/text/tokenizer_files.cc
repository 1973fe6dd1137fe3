// SPDX-License-Identifier: Apache-2.0
// Writes the files of a tokenizer.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/tokenizer_spec.h"

namespace snug::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kAnyTokenizer = "PreTrainedTokenizerFast";  // transformers' name

bool is_role(const TokenizerSpec& spec, const AddedToken& token) {
  const TokenRoles& r = spec.roles;
  const std::string& name = token.content;
  const bool is_named =
      name == r.pad || name == r.unk || name == r.cls || name == r.sep || name == r.mask;
  return is_named && token.special && !token.normalized && !token.single_word && !token.lstrip &&
         !token.rstrip;
}

std::string type_of(const io::JsonValue& pipeline, std::string_view part) {
  const std::optional<io::JsonValue> value = pipeline.find(part);
  return value ? value->get_string("type", "") : std::string();
}

/// The kind of the model; versions before 0.10 wrote none.
std::string kind_of(const TokenizerSpec& spec) {
  return io::parse_json(spec.model, spec.where).get_string("type", "WordPiece");
}

/// transformers' BertTokenizer rebuilds itself from the vocabulary and the few options of
/// tokenizer_config.json; any other tokenizer must be read as it stands in tokenizer.json.
bool is_plain_bert(const TokenizerSpec& spec) {
  const io::JsonValue pipeline = io::parse_json(spec.pipeline, spec.where);
  const io::JsonValue model = io::parse_json(spec.model, spec.where);
  return kind_of(spec) == "WordPiece" &&
         model.get_string("continuing_subword_prefix", "") == "##" &&
         model.get_int("max_input_chars_per_word", 0) == 100 &&
         type_of(pipeline, "normalizer") == "BertNormalizer" &&
         pipeline.at("normalizer").get_bool("clean_text", false) &&
         type_of(pipeline, "pre_tokenizer") == "BertPreTokenizer" &&
         type_of(pipeline, "post_processor") != "RobertaProcessing" &&
         std::all_of(spec.added.begin(), spec.added.end(),
                     [&](const AddedToken& token) { return is_role(spec, token); });
}

Json added_tokens_of(const TokenizerSpec& spec) {
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
  return added;
}

std::string json_of(std::string_view token) { return Json(token).dump(); }

void append_vocabulary(const TokenizerSpec& spec, std::string& text) {
  const bool is_scored = !spec.scores.empty();
  text += is_scored ? "[" : "{";
  for (int64_t id = 0; id < spec.vocabulary.size(); ++id) {
    if (spec.vocabulary.find(spec.vocabulary.token(id)) != id) continue;  // an id of no token
    text += text.ends_with(is_scored ? '[' : '{') ? "\n    " : ",\n    ";
    const std::string token = json_of(spec.vocabulary.token(id));
    text += is_scored ? "[" + token + "," + Json(spec.scores[static_cast<size_t>(id)]).dump() + "]"
                      : token + ": " + std::to_string(id);
  }
  text += is_scored ? "\n  ]" : "\n  }";
}

/// Lines "left right", which every version of the package reads; pairs, which the newer ones read,
/// where a token holds a space.
void append_merges(const TokenizerSpec& spec, std::string& text) {
  const TokenTable& table = spec.vocabulary;
  const bool has_spaces =
      std::any_of(spec.merges.begin(), spec.merges.end(), [&](const BpeMerge& one) {
        return table.token(one.left).find(' ') != std::string_view::npos ||
               table.token(one.right).find(' ') != std::string_view::npos;
      });
  text += "[";
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const std::string left(table.token(spec.merges[i].left));
    const std::string right(table.token(spec.merges[i].right));
    text += i == 0 ? "\n    " : ",\n    ";
    text +=
        has_spaces ? "[" + json_of(left) + "," + json_of(right) + "]" : json_of(left + " " + right);
  }
  text += "\n  ]";
}

/// The file as text: the tables not by the JSON library, whose ordered objects are lists and would
/// take quadratic time for 30,000 keys.
std::string tokenizer_json_of(const TokenizerSpec& spec) {
  const Json head{{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", added_tokens_of(spec)}};
  std::string text = head.dump(2);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n  " + spec.pipeline.substr(1, spec.pipeline.size() - 2);
  text += ",\n  \"model\": " + spec.model.substr(0, spec.model.size() - 1);
  if (spec.model.size() > 2) text += ",";
  text += "\"vocab\": ";
  append_vocabulary(spec, text);
  if (kind_of(spec) == "BPE") {
    text += ",\"merges\": ";
    append_merges(spec, text);
  }
  return text + "}\n}\n";
}

/// Names only roles that are added tokens: any other token that is named here becomes an added one,
/// and is cut out of texts.
void name_roles(const TokenizerSpec& spec, Json& config) {
  const auto name = [&](const char* key, const std::string& role) {
    const auto is_it = [&](const AddedToken& token) { return token.content == role; };
    if (std::any_of(spec.added.begin(), spec.added.end(), is_it)) config[key] = role;
  };
  name("pad_token", spec.roles.pad);
  name("unk_token", spec.roles.unk);
  name("cls_token", spec.roles.cls);
  name("sep_token", spec.roles.sep);
  name("mask_token", spec.roles.mask);
}

void write_config(Json config, const std::string& folder, const TextLimits& limits,
                  bool has_type_ids) {
  if (limits.max_length > 0) config["model_max_length"] = limits.max_length;
  if (limits.overlong == "tail") {
    config["truncation_side"] = "left";  // which transformers knows
  } else if (!limits.overlong.empty()) {
    config["snug_overlong"] = limits.overlong;
  }
  if (limits.stride > 0) config["snug_stride"] = limits.stride;
  // Some versions of transformers make no type ids where a file of no family says nothing.
  if (!has_type_ids) {
    config["model_input_names"] = {"input_ids", "attention_mask"};
  } else if (config["tokenizer_class"] == kAnyTokenizer) {
    config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  }
  io::write_file(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

/// Whether the class adds all of them by itself, as they are.
bool are_of_class(const TokenizerSpec& spec, bool mask_takes_space) {
  return std::all_of(spec.added.begin(), spec.added.end(), [&](AddedToken token) {
    if (token.content == spec.roles.mask) token.lstrip = token.lstrip != mask_takes_space;
    return is_role(spec, token);
  });
}

Json decoder_of(const TokenizerSpec& spec) {
  Json decoder = Json::object();
  for (Json& token : added_tokens_of(spec)) {
    const std::string id = std::to_string(token["id"].get<int32_t>());
    token.erase("id");
    decoder[id] = std::move(token);
  }
  return decoder;
}

/// The model as it was read.
void write_sentencepiece(const TokenizerSpec& spec, const std::string& folder,
                         const TextLimits& limits, bool has_type_ids) {
  const SentencePieceSpec& model = *spec.sentencepiece;
  const bool is_deberta = model.tokenizer_class == "DebertaV2Tokenizer";
  io::write_file(folder + (is_deberta ? "/spm.model" : "/sentencepiece.bpe.model"), model.file);
  Json config{{"tokenizer_class", model.tokenizer_class}};
  name_roles(spec, config);
  if (is_deberta) config["do_lower_case"] = false;
  if (!are_of_class(spec, !is_deberta)) config["added_tokens_decoder"] = decoder_of(spec);
  write_config(std::move(config), folder, limits, has_type_ids);
}

std::string lines_of(const TokenTable& vocabulary) {
  std::string lines;
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    lines.append(vocabulary.token(id));
    lines.push_back('\n');
  }
  return lines;
}

}  // namespace

void write_tokenizer_files(const TokenizerSpec& spec, const std::string& folder,
                           const TextLimits& limits, bool has_type_ids) {
  if (spec.sentencepiece) return write_sentencepiece(spec, folder, limits, has_type_ids);
  if (kind_of(spec) == "WordPiece")
    io::write_file(folder + "/vocab.txt", lines_of(spec.vocabulary));
  io::write_file(folder + "/tokenizer.json", tokenizer_json_of(spec));
  Json config{{"tokenizer_class", is_plain_bert(spec) ? "BertTokenizer" : kAnyTokenizer}};
  const io::JsonValue pipeline = io::parse_json(spec.pipeline, spec.where);
  if (type_of(pipeline, "normalizer") == "BertNormalizer") {
    const io::JsonValue normalizer = pipeline.at("normalizer");
    config["do_lower_case"] = normalizer.get_bool("lowercase");
    config["strip_accents"] =
        normalizer.has("strip_accents") ? Json(normalizer.get_bool("strip_accents")) : Json();
    config["tokenize_chinese_chars"] = normalizer.get_bool("handle_chinese_chars");
  }
  name_roles(spec, config);
  write_config(std::move(config), folder, limits, has_type_ids);
}

}  // namespace snug::text
