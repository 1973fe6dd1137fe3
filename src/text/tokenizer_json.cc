// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's tokenizer.json. The vocabulary and the merges go from the parser into lists
// and never into a JSON document: a document of 30,000 tokens would take ten times the bytes of the
// table, and would lose repeated tokens. What may be missing is what `tokenizers` 0.8.1 to 0.23.3
// reads where it is missing; whatever none of them reads is refused.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/json_fields.h"
#include "text/merge_list.h"
#include "text/template.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary_entries.h"

namespace snug::text {
namespace {

using io::JsonValue;
using Cell = io::JsonRows::Cell;

/// What the parser hands over instead of putting it into the document.
struct Tables {
  VocabularyEntries entries;
  std::vector<double> scores;  // of a list of tokens and scores
  MergeList merges;
};

JsonValue parse_file(const std::string& file, Tables& tables, TokenizerSpec& spec) {
  const auto take_scored = [&](std::span<const Cell> row) {
    if (row.size() != 2 || row[0].is_number || !row[1].is_number) return false;
    add_vocabulary_token(spec, row[0].text, "id " + std::to_string(spec.vocabulary.size()));
    tables.scores.push_back(read_score(row[1].text));
    return true;
  };
  const auto take_merge = [&](std::span<const Cell> row) {
    if (row.empty() || row.size() > 2) return false;
    for (const Cell& cell : row) {
      if (cell.is_number) return false;
    }
    return row.size() == 1 ? tables.merges.add_line(row[0].text)
                           : tables.merges.add(row[0].text, row[1].text);
  };
  return io::parse_json(io::read_all(file, kMaxTokenizerFileBytes), file,
                        {.max_values = kMaxTokenizerValues},
                        {.entries = tables.entries.taken({"model", "vocab"}),
                         .rows = {{.path = {"model", "vocab"}, .take = take_scored},
                                  {.path = {"model", "merges"}, .take = take_merge}}});
}

void read_vocabulary(const JsonValue& document, Tables& tables, TokenizerSpec& spec) {
  if (!tables.scores.empty()) {
    spec.scores = std::move(tables.scores);
    return;
  }
  if (const std::optional<JsonValue> model = document.find("model");
      tables.entries.empty() || !model || !model->is_object() || !model->find("vocab")) {
    tables.entries.add_to(spec);  // it says so
    return;
  }
  if (const JsonValue vocabulary = document.at("model").at("vocab");
      !vocabulary.is_object() || vocabulary.size() != 0) {
    throw Error(ErrorCode::bad_data, spec.where, "model.vocab is not an object of tokens and ids",
                "write the file again");
  }
  tables.entries.add_to(spec);
}

/// The type where the file says none, as `tokenizers` finds it: by the fields that only one has.
std::string type_of_model(const JsonFields& model, const TokenizerSpec& spec) {
  if (model.has("type")) return model.required_string("type");
  if (!spec.scores.empty()) return "Unigram";
  return model.has("merges") ? "BPE" : "WordPiece";
}

/// Without its merges a BPE model would cut every word into letters.
void check_merges(const JsonFields& model, const std::string& type) {
  if (type != "BPE") {
    if (model.has("merges")) model.fail("of type '" + type + "' has the unknown field 'merges'");
    return;
  }
  if (!model.has_value("merges")) model.fail("of type 'BPE' has no merges");
  if (!model.at("merges").is_array()) model.fail("has merges that are no list");
}

void read_added_tokens(const JsonValue& document, TokenizerSpec& spec) {
  const std::optional<JsonValue> list = document.find_or_null("added_tokens");
  if (!list) return;
  if (!list->is_array()) {
    throw Error(ErrorCode::bad_data, spec.where, "added_tokens is not a list",
                "write the file again");
  }
  for (int64_t i = 0; i < list->size(); ++i) {
    const JsonFields fields(list->at(i), spec.where, "added_tokens");
    fields.allow_only(
        {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"})
      (void)fields.required_boolean(key);
    AddedToken token = read_added_token(fields);
    token.id = static_cast<int32_t>(fields.required_count("id"));
    spec.added.push_back(std::move(token));
  }
  std::stable_sort(spec.added.begin(), spec.added.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  int64_t next = spec.vocabulary.size();
  for (size_t i = 0; i < spec.added.size(); ++i) {
    const AddedToken& token = spec.added[i];
    const int32_t known = spec.vocabulary.find(token.content);
    const int64_t expected = known >= 0 ? known : next++;
    if (token.id != expected || (i > 0 && spec.added[i - 1].id == token.id)) {
      throw Error(
          ErrorCode::bad_data, spec.where,
          "added_tokens gives '" + token.content + "' id " + std::to_string(token.id) +
              "; it must be " + std::to_string(expected) + " and stand once",
          "take the file that the model was published with, or save its tokenizer again with "
          "transformers, which numbers added tokens behind the vocabulary's");
    }
  }
}

/// How texts are cut. The length itself is a key of the run.
void check_truncation(const JsonValue& document, const std::string& where) {
  const std::optional<JsonValue> value = document.find("truncation");
  if (!value) return;
  const JsonFields fields(value, where, "truncation");
  fields.allow_only({"direction", "max_length", "strategy", "stride"});
  // Versions before 0.11 wrote no direction and cut on the right.
  if (fields.has("direction")) fields.require_string("direction", "Right");
  fields.require_string("strategy", "LongestFirst");
  (void)fields.required_count("max_length");
  (void)fields.required_count("stride");
}

/// Padding is masked, so its length means nothing; its side would move the positions. Its token is
/// that of transformers where tokenizer_config.json names none.
void read_padding(const JsonValue& document, const TokenizerSpec& spec, TokenizerConfig& config) {
  const std::optional<JsonValue> value = document.find("padding");
  if (!value) return;
  const JsonFields fields(value, spec.where, "padding");
  fields.allow_only(
      {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  fields.require_string("direction", "Right");
  if (!config.roles.pad.empty() || !fields.has("pad_token")) return;
  config.roles.pad = fields.required_string("pad_token");
  if (config.roles.pad.empty()) return;
  DeclaredToken pad;
  pad.token.content = config.roles.pad;
  pad.key = "padding.pad_token";
  pad.where = spec.where;
  pad.has_options = false;
  config.declared.push_back(std::move(pad));
}

[[noreturn]] void refuse_disagreement(const char* key, const TokenizerConfig& config,
                                      const TokenizerSpec& spec) {
  throw Error(ErrorCode::bad_config, config.where,
              std::string(key) + " disagrees with " + spec.where,
              "remove the key from tokenizer_config.json or make the two agree");
}

/// transformers builds BERT's normalizer and byte-level splitter again from these keys.
void check_agreement(const JsonValue& document, const TokenizerConfig& config,
                     const TokenizerSpec& spec) {
  const auto refuse = [&](const char* key) { refuse_disagreement(key, config, spec); };
  const std::optional<JsonValue> splitter = document.find("pre_tokenizer");
  if (config.add_prefix_space && splitter && splitter->is_object() &&
      splitter->get_string("type", "") == "ByteLevel" &&
      splitter->get_bool("add_prefix_space", true) != *config.add_prefix_space)
    refuse("add_prefix_space");
  const std::optional<JsonValue> normalizer = document.find("normalizer");
  if (!normalizer || !normalizer->is_object() ||
      normalizer->get_string("type", "") != "BertNormalizer")
    return;
  const JsonFields fields(normalizer, spec.where, "normalizer");
  const bool lowercase = fields.required_boolean("lowercase");
  if (config.lowercase && *config.lowercase != lowercase) refuse("do_lower_case");
  if (config.strip_accents &&
      *config.strip_accents != fields.boolean("strip_accents").value_or(lowercase))
    refuse("strip_accents");
  if (config.handle_chinese_chars &&
      *config.handle_chinese_chars != fields.required_boolean("handle_chinese_chars"))
    refuse("tokenize_chinese_chars");
  const std::optional<JsonValue> unk = document.at("model").find("unk_token");
  if (!config.roles.unk.empty() && unk && unk->is_string() && unk->as_string() != config.roles.unk)
    refuse("unk_token");
}

/// Classes of a family put these tokens around a text in version 5 of transformers, and those of
/// tokenizer.json in version 4.
void check_template(const JsonValue& document, const TokenizerConfig& config,
                    const TokenizerSpec& spec) {
  const std::string& name = config.tokenizer_class;
  if (name.empty() || name == "PreTrainedTokenizerFast" || name == "TokenizersBackend") return;
  const Template around = read_template(document.find("post_processor"), spec);
  const auto check = [&](const char* key, const std::string& role, const Template::Piece& piece) {
    if (role.empty() || piece.kind != Template::Piece::Kind::token) return;
    if (piece.id != spec.find(role)) refuse_disagreement(key, config, spec);
  };
  check("cls_token", config.roles.cls, around.single.front());
  check("sep_token", config.roles.sep, around.single.back());
}

/// The object again, without what went into tables.
std::string text_of(const JsonFields& fields, std::initializer_list<std::string_view> without) {
  std::string text;
  for (const std::string& key : fields.keys()) {
    if (std::find(without.begin(), without.end(), key) != without.end()) continue;
    text += (text.empty() ? "{\"" : ",\"") + key + "\":" + fields.at(key).dump();
  }
  return text.empty() ? "{}" : text + "}";
}

std::string pipeline_of(const JsonFields& fields) {
  std::string text;
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    text += std::string(text.empty() ? "{\"" : ",\"") + key +
            "\":" + (fields.has(key) ? fields.at(key).dump() : "null");
  }
  return text + "}";
}

}  // namespace

double read_score(const std::string& text) {
  uint64_t digits = 0;
  int exponent = 0;
  bool is_fraction = false;
  bool is_full = false;  // more digits do not fit, and are left out
  size_t at = text.starts_with('-') ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      is_fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    is_full = is_full || digits > (std::numeric_limits<uint64_t>::max() - digit) / 10;
    if (!is_full) digits = digits * 10 + digit;
    exponent += is_full && !is_fraction ? 1 : !is_full && is_fraction ? -1 : 0;
  }
  if (at < text.size()) {
    const bool is_signed = text[at + 1] == '+';
    int written = 0;
    const auto read =
        std::from_chars(text.data() + at + (is_signed ? 2 : 1), text.data() + text.size(), written);
    if (read.ec != std::errc() || std::abs(written) > 400) written = 0;
    exponent += written;
  }
  auto value = static_cast<double>(digits);
  constexpr int kMostDigits = 308;
  for (; exponent < -kMostDigits; exponent += kMostDigits) value /= 1e308;
  exponent = std::min(exponent, kMostDigits);
  const double power = std::pow(10.0, std::abs(exponent));
  value = exponent < 0 ? value / power : value * power;
  return text.starts_with('-') ? -value : value;
}

TokenizerSpec read_tokenizer_json(const std::string& file, TokenizerConfig config) {
  TokenizerSpec spec;
  spec.where = file;
  Tables tables{.entries = {file, "model.vocab"}, .scores = {}, .merges = {}};
  const JsonValue document = parse_file(file, tables, spec);
  const JsonFields fields(document, spec.where, "tokenizer");
  fields.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "post_processor", "decoder", "model"});
  if (fields.has("version")) fields.require_string("version", "1.0");
  const JsonFields model(document.find("model"), spec.where, "model");
  read_vocabulary(document, tables, spec);
  spec.pipeline = pipeline_of(fields);
  const std::string type = type_of_model(model, spec);
  check_merges(model, type);
  spec.model = text_of(model, {"vocab", "merges"});
  if (!model.has("type") && type != "WordPiece")  // of which versions before 0.10 wrote no type
    spec.model =
        "{\"type\":\"" + type + (spec.model == "{}" ? "\"}" : "\"," + spec.model.substr(1));
  spec.merges = tables.merges.resolve(spec, model.has_value("continuing_subword_prefix")
                                                ? model.required_string("continuing_subword_prefix")
                                                : std::string());
  check_truncation(document, spec.where);
  read_padding(document, spec, config);
  spec.roles = config.roles;
  read_added_tokens(document, spec);
  check_agreement(document, config, spec);
  check_template(document, config, spec);
  add_declared_tokens(spec, config, KnownOptions::of_tokenizer_json);
  return spec;
}

}  // namespace snug::text
