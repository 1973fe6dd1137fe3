// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json and what config.json says
// of a tokenizer.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/ascii.h"
#include "base/numbers.h"
#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/json_fields.h"
#include "text/tokenizer_spec.h"

namespace snug::text {
namespace {

// In the order in which transformers adds them.
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

/// tokenizer_config.json, and special_tokens_map.json where it counts.
struct Sources {
  std::optional<JsonFields> config, map;
  /// The one whose value of a key counts, or null.
  [[nodiscard]] const JsonFields* of(const std::string& key) const {
    if (map && map->has_value(key)) return &*map;
    return config && config->has_value(key) ? &*config : nullptr;
  }
};

DeclaredToken read_special(const io::JsonValue& value, const JsonFields& fields,
                           const std::string& key) {
  DeclaredToken declared{.token = {}, .key = key, .where = fields.where()};
  if (value.is_string()) {
    declared.token.content = value.as_string();
    declared.has_options = false;
    return declared;
  }
  if (!value.is_object()) fields.fail("has a " + key + " that is no token: " + value.dump());
  declared.token = read_added_token(JsonFields(value, fields.where(), key));
  declared.token.special = true;
  return declared;
}

void declare(DeclaredToken token, TokenizerConfig& config) {
  if (!token.token.content.empty()) config.declared.push_back(std::move(token));
}

void read_role_tokens(const Sources& sources, TokenizerConfig& config) {
  for (const char* key : kRoles) {
    const JsonFields* fields = sources.of(key);
    if (fields == nullptr) continue;
    DeclaredToken declared = read_special(fields->at(key), *fields, key);
    for (const auto& [name, role] :
         {std::pair<std::string_view, std::string*>{"pad_token", &config.roles.pad},
          {"unk_token", &config.roles.unk},
          {"cls_token", &config.roles.cls},
          {"sep_token", &config.roles.sep},
          {"mask_token", &config.roles.mask}}) {
      if (name == key) *role = declared.token.content;
    }
    declare(std::move(declared), config);
  }
}

/// image_token and its like, of no role that every model has.
void read_named_tokens(const JsonFields& fields, TokenizerConfig& config) {
  for (const std::string& key : fields.keys()) {
    const bool is_role = std::find(std::begin(kRoles), std::end(kRoles), key) != std::end(kRoles);
    if (is_role || !key.ends_with("_token") || !fields.has_value(key)) continue;
    const io::JsonValue value = fields.at(key);
    if (!value.is_string() && !value.is_object()) continue;  // add_bos_token and its like
    DeclaredToken declared = read_special(value, fields, key);
    declared.is_of_version_5 = true;
    declare(std::move(declared), config);
  }
}

void read_extra_tokens(const JsonFields& fields, TokenizerConfig& config) {
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!fields.has_value(key)) continue;
    const io::JsonValue value = fields.at(key);
    if (value.is_object()) {
      const JsonFields named(value, fields.where(), key);
      for (const std::string& name : named.keys())
        declare(read_special(named.at(name), named, name), config);
      continue;
    }
    if (!value.is_array()) fields.fail(std::string("has ") + key + " that is no list");
    for (int64_t i = 0; i < value.size(); ++i)
      declare(read_special(value.at(i), fields, key), config);
  }
}

int32_t read_id(const std::string& text, const JsonFields& fields) {
  const int32_t id = number_in<int32_t>(text).value_or(-1);
  if (id < 0) fields.fail("has the id '" + text + "'");
  return id;
}

std::vector<DeclaredToken> by_id(std::vector<DeclaredToken> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.token.id < b.token.id; });
  return tokens;
}

std::vector<DeclaredToken> read_decoder(const JsonFields& fields) {
  const std::string name = "added_tokens_decoder";
  const JsonFields tokens(fields.at(name), fields.where(), name);
  std::vector<DeclaredToken> found;
  for (const std::string& key : tokens.keys()) {
    AddedToken token = read_added_token(JsonFields(tokens.at(key), fields.where(), name));
    token.id = read_id(key, tokens);
    found.push_back({.token = std::move(token),
                     .key = name,
                     .where = fields.where(),
                     .has_options = true,
                     .is_of_decoder = true});
  }
  return by_id(std::move(found));
}

/// What stood in the place of added_tokens_decoder before version 4.34; `special` says which
/// tokens other keys declare.
std::vector<DeclaredToken> read_added_file(const JsonFields& fields,
                                           const std::vector<DeclaredToken>& special) {
  std::unordered_set<std::string> names;
  for (const DeclaredToken& one : special) names.insert(one.token.content);
  std::vector<DeclaredToken> found;
  for (const std::string& content : fields.keys()) {
    if (content.empty()) fields.fail("has an empty token");
    AddedToken token;
    token.content = content;
    token.id = static_cast<int32_t>(fields.required_count(content));
    token.special = names.contains(content);
    token.normalized = !token.special;
    found.push_back(
        {.token = std::move(token), .key = "added_tokens.json", .where = fields.where()});
  }
  return by_id(std::move(found));
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
  if (fields.has_value("truncation_side")) {
    const std::string side = fields.required_string("truncation_side");
    if (side != "left" && side != "right") fields.fail("has a truncation_side of '" + side + "'");
    if (side == "left" && !limits.overlong.empty())
      fields.fail("has a truncation_side of left and a snug_overlong of '" + limits.overlong + "'");
    if (side == "left") limits.overlong = "tail";
  }
  if (fields.has_value("snug_stride")) limits.stride = fields.required_count("snug_stride");
  if (limits.stride > kMostTokens || (limits.stride > 0 && limits.overlong != "window"))
    fields.fail("has a snug_stride that no windows could share");
  return limits;
}

/// transformers makes no type ids where the list of a model's inputs omits them. Where there
/// is no list, its version 5 makes none for a tokenizer of no family, which it has another name
/// for, and for ALBERT's, in whose files it says its "backend".
std::optional<bool> read_type_ids(const JsonFields& fields, const std::string& tokenizer_class) {
  if (!fields.has_value("model_input_names")) {
    const bool has_none = tokenizer_class == "TokenizersBackend" ||
                          (tokenizer_class == "AlbertTokenizer" && fields.has("backend"));
    return has_none ? std::optional(false) : std::nullopt;
  }
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

/// Files that say the same in older folders count where tokenizer_config.json does not say it.
void read_tokens(const std::string& folder, Sources& sources, TokenizerConfig& config) {
  const bool has_decoder = sources.config && sources.config->has("added_tokens_decoder");
  const std::string map = folder + "/special_tokens_map.json";
  if (!has_decoder && io::has_file(map)) sources.map.emplace(parse(map), map, "special_tokens_map");
  read_role_tokens(sources, config);
  for (const auto& fields : {sources.config, sources.map}) {
    if (fields) read_named_tokens(*fields, config);
  }
  for (const auto& fields : {sources.config, sources.map}) {
    if (fields) read_extra_tokens(*fields, config);
  }
  const std::string added = folder + "/added_tokens.json";
  std::vector<DeclaredToken> table;
  if (has_decoder) {
    table = read_decoder(*sources.config);
  } else if (io::has_file(added)) {
    table = read_added_file(JsonFields(parse(added), added, "added_tokens"), config.declared);
  }
  config.declared.insert(config.declared.begin(), std::make_move_iterator(table.begin()),
                         std::make_move_iterator(table.end()));
}

/// Where tokenizer_config.json does not name the class, transformers takes the model's.
void read_model_class(const std::string& file, TokenizerConfig& config) {
  if (!io::has_file(file)) return;
  const JsonFields fields(parse(file), file, "config");
  if (fields.has_value("tokenizer_class"))
    config.tokenizer_class = fields.required_string("tokenizer_class");
  if (!fields.has_value("model_type")) return;
  std::string type = fields.required_string("model_type");
  if (type.empty()) return;
  type[0] = ascii::to_upper(type[0]);
  config.usual_class = type + "Tokenizer";
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& file) {
  TokenizerConfig config;
  config.where = file;
  const std::string folder = io::parent_folder(file);
  Sources sources;
  if (io::has_file(file)) sources.config.emplace(parse(file), file, "tokenizer_config");
  read_tokens(folder, sources, config);
  const std::string model = folder + "/config.json";
  if (!sources.config) {
    read_model_class(model, config);
    return config;
  }
  config.exists = true;
  const JsonFields& fields = *sources.config;
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
  // Keys of Japanese BERT, whose words other programs find.
  if (fields.has_value("word_tokenizer_type"))
    fields.require_string("word_tokenizer_type", "basic");
  if (fields.has_value("subword_tokenizer_type"))
    fields.require_string("subword_tokenizer_type", "wordpiece");
  if (!fields.boolean("do_basic_tokenize").value_or(true))
    fields.fail("do_basic_tokenize false is not supported");
  if (fields.has("padding_side")) fields.require_string("padding_side", "right");
  if (fields.has_value("never_split") &&
      (!fields.at("never_split").is_array() || fields.at("never_split").size() != 0)) {
    fields.fail("never_split is not supported");
  }
  if (fields.boolean("split_special_tokens").value_or(false))
    fields.fail("split_special_tokens true is not supported");
  return config;
}

}  // namespace snug::text
