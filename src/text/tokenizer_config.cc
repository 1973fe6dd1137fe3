// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer_config.json, special_tokens_map.json and what config.json says of a tokenizer.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/numbers.h"
#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/json_fields.h"
#include "text/tokenizer_spec.h"

namespace snug {
namespace {

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
    token.id = number_in<int32_t>(key).value_or(-1);
    if (token.id < 0) fields.fail("added_tokens_decoder has the id '" + key + "'");
    config.added.push_back(std::move(token));
  }
  std::sort(config.added.begin(), config.added.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
}

constexpr int64_t kMostTokens = 1 << 20;

/// transformers writes 10^30 where nothing is known.
int64_t read_max_length(const JsonFields& fields) {
  if (!fields.has_value("model_max_length")) return 0;
  const io::JsonValue value = fields.at("model_max_length");
  if (!value.is_number()) fields.fail("model_max_length must be a number of tokens");
  const double tokens = value.as_double();
  if (tokens > kMostTokens) return 0;
  if (!(tokens >= 1) || tokens != std::floor(tokens))
    fields.fail("model_max_length must be a whole number of tokens above 0");
  return static_cast<int64_t>(tokens);
}

TextLimits read_limits(const JsonFields& fields) {
  TextLimits limits;
  limits.max_length = read_max_length(fields);
  if (fields.has_value("snug_overlong")) {
    limits.overlong = fields.required_string("snug_overlong");
    if (limits.overlong != "head_tail" && limits.overlong != "window")
      fields.fail("has a snug_overlong of '" + limits.overlong + "'");
  }
  if (fields.has_value("snug_stride")) limits.stride = fields.required_count("snug_stride");
  if (limits.stride > kMostTokens || (limits.stride > 0 && limits.overlong != "window"))
    fields.fail("has a snug_stride that no windows could share");
  return limits;
}

void read_roles(const JsonFields& fields, TokenRoles& roles) {
  read_role(fields, "pad_token", roles.pad);
  read_role(fields, "unk_token", roles.unk);
  read_role(fields, "cls_token", roles.cls);
  read_role(fields, "sep_token", roles.sep);
  read_role(fields, "mask_token", roles.mask);
}

/// transformers makes no type ids where the list of a model's inputs leaves them away, and since
/// its version 5, whose name of a tokenizer of no family is another, where there is no list.
std::optional<bool> read_type_ids(const JsonFields& fields, const std::string& tokenizer_class) {
  if (!fields.has_value("model_input_names"))
    return tokenizer_class == "TokenizersBackend" ? std::optional(false) : std::nullopt;
  const io::JsonValue names = fields.at("model_input_names");
  if (!names.is_array()) fields.fail("model_input_names must be a list of names");
  for (int64_t i = 0; i < names.size(); ++i) {
    if (!names.at(i).is_string()) fields.fail("model_input_names must be a list of names");
    if (names.at(i).as_string() == "token_type_ids") return true;
  }
  return false;
}

io::JsonValue parse(const std::string& file) {
  return io::parse_json(io::read_all(file, kMaxTokenizerFileBytes), file,
                        {.max_values = kMaxTokenizerValues});
}

/// Where tokenizer_config.json does not name the class, transformers takes the model's.
void read_model_class(const std::string& file, TokenizerConfig& config) {
  if (!io::file_exists(file)) return;
  const JsonFields fields(parse(file), file, "config");
  if (fields.has_value("tokenizer_class"))
    config.tokenizer_class = fields.required_string("tokenizer_class");
  if (!fields.has_value("model_type")) return;
  std::string type = fields.required_string("model_type");
  if (type.empty()) return;
  type[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(type[0])));
  config.usual_class = type + "Tokenizer";
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& file) {
  TokenizerConfig config;
  config.where = file;
  const std::string map = io::parent_folder(file) + "/special_tokens_map.json";
  if (io::file_exists(map))
    read_roles(JsonFields(parse(map), map, "special_tokens_map"), config.roles);
  const std::string model = io::parent_folder(file) + "/config.json";
  if (!io::file_exists(file)) {
    read_model_class(model, config);
    return config;
  }
  config.exists = true;
  const JsonFields fields(parse(file), config.where, "tokenizer_config");
  read_roles(fields, config.roles);
  config.lowercase = fields.boolean("do_lower_case");
  config.strip_accents = fields.boolean("strip_accents");
  config.handle_chinese_chars = fields.boolean("tokenize_chinese_chars");
  config.add_prefix_space = fields.boolean("add_prefix_space");
  if (fields.has_value("tokenizer_class")) {
    config.tokenizer_class = fields.required_string("tokenizer_class");
  } else {
    read_model_class(model, config);
  }
  config.limits = read_limits(fields);
  config.keep_accents = fields.boolean("keep_accents").value_or(false);
  config.remove_space = fields.boolean("remove_space").value_or(true);
  config.split_by_punct = fields.boolean("split_by_punct").value_or(false);
  config.has_type_ids = read_type_ids(fields, config.tokenizer_class);
  // Of Japanese BERT, whose words other programs find.
  if (fields.has_value("word_tokenizer_type"))
    fields.require_string("word_tokenizer_type", "basic");
  if (fields.has_value("subword_tokenizer_type"))
    fields.require_string("subword_tokenizer_type", "wordpiece");
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

}  // namespace snug
